//! The site's pictures, drawn as SVG.

use std::fmt::Write;

use crate::words::CATEGORIES;

/// The picture at `/images/NAME`: `logo.svg`, or `category-N.svg` for a category.
pub(crate) fn image(name: &str) -> Option<String> {
    if name == "logo.svg" {
        return Some(logo());
    }
    let number: usize = name.strip_prefix("category-")?.strip_suffix(".svg")?.parse().ok()?;
    CATEGORIES.get(number.checked_sub(1)?)?;
    Some(category(number))
}

/// A hammer over its block.
fn logo() -> String {
    r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" width="64" height="64"><rect width="64" height="64" rx="12" fill="#12414f"/><g fill="#f4c95d"><rect x="14" y="50" width="30" height="6" rx="2"/><g transform="rotate(-40 32 26)"><rect x="22" y="12" width="20" height="16" rx="3"/><rect x="29.500" y="28" width="5" height="24" rx="2"/></g></g></svg>"##
        .to_owned()
}

/// A pattern of circles that is the category's own.
fn category(number: usize) -> String {
    let hue = number * 360 / CATEGORIES.len();
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 48 48" width="48" height="48"><rect width="48" height="48" rx="8" fill="hsl({hue} 45% 90%)"/>"#
    );
    for place in 0..9 {
        let (x, y) = (12 + place % 3 * 12, 12 + place / 3 * 12);
        let radius = 2 + (number * 7 + place * (number + 3)) % 5;
        // Writing to a String cannot fail.
        let _ = write!(svg, r#"<circle cx="{x}" cy="{y}" r="{radius}" fill="hsl({hue} 55% 40%)"/>"#);
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pictures_there_are() {
        assert!(image("logo.svg").is_some_and(|svg| svg.starts_with("<svg") && svg.ends_with("</svg>")));
        assert_ne!(image("category-1.svg"), image("category-2.svg"));
        for name in
            ["category-0.svg", "category-99.svg", "category-.svg", "../logo.svg", "", "category-1.png"]
        {
            assert_eq!(image(name), None, "{name}");
        }
    }
}
