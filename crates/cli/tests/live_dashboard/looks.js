// Text whose contrast with its ground is below what WCAG 2.2 (1.4.3) asks for: 4.5 to 1, 3 to 1 if large.
(() => {
  const parse = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = ([r, g, b]) => {
    const linear = [r, g, b].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ground = (element) => {
    for (let one = element; one !== null; one = one.parentElement) {
      const [r, g, b, alpha = 1] = parse(getComputedStyle(one).backgroundColor);
      if (alpha === 1 && g !== undefined) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const faults = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "");
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    // What cannot be used yet is exempt.
    if (!own || box.width < 2 || style.visibility !== "visible" || element.closest(":disabled") !== null) continue;
    const [ink, paper] = [luminance(parse(style.color)), luminance(ground(element))];
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (isLarge ? 3 : 4.5)) {
      faults.push(`${element.tagName}.${element.className} ${JSON.stringify(element.textContent.slice(0, 30))}: ${contrast.toFixed(2)}`);
    }
  }
  return faults;
})();
