//! Path rewriting: the path under which a request goes on to the upstream.

use regex::{Captures, Regex, RegexBuilder};

/// Memory that one compiled regular expression may take, and its scratch memory again.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// What is wrong with a rewrite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rewrites[{rewrite}].{field}: {message}")]
pub struct RewriteFault {
    /// Position of the rewrite.
    pub rewrite: usize,
    /// `pattern` or `replacement`.
    pub field: &'static str,
    /// What is wrong and how to mend it.
    pub message: String,
}

/// Compiled rewrites: the first whose pattern matches at the path's start replaces what it matched;
/// the rest of the path stays.
///
/// Patterns see the path as received, escapes and all, without query; so what is carried over
/// into the result stays validly escaped. In a replacement `$1` or `${1}` is a group by number,
/// `${name}` by name, `$$` a dollar sign; a group that took no part is empty. A replacement begins
/// with `/`, so that the result is an absolute path.
///
/// Cost: one regular expression after the other, each linear in the path; one allocation when one
/// matches. Length of the result: at most the replacement's and, for each group in it, the path's.
/// Clone for each core as the classifier.
///
/// ```
/// use tidegate_control::rewrite::Rewriter;
///
/// let rewriter = Rewriter::compile(&[("/shop/([^/]+)", "/v2/${1}/shop"), ("/old", "/new")]).unwrap();
/// assert_eq!(rewriter.apply("/shop/de/cart").as_deref(), Some("/v2/de/shop/cart"));
/// assert_eq!(rewriter.apply("/the/old"), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rewriter {
    rewrites: Box<[Rewrite]>,
}

#[derive(Clone, Debug)]
struct Rewrite {
    pattern: Regex,
    replacement: Box<[Part]>,
}

/// A piece of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Group(usize),
}

impl Rewriter {
    /// Compiles pairs of pattern and replacement.
    ///
    /// # Errors
    ///
    /// Every fault, in order, each with its place and its mend.
    pub fn compile<S: AsRef<str>>(rewrites: &[(S, S)]) -> Result<Self, Vec<RewriteFault>> {
        let mut faults = Vec::new();
        let mut compiled = Vec::new();
        for (rewrite, (pattern, replacement)) in rewrites.iter().enumerate() {
            let mut fault = |field, message| faults.push(RewriteFault { rewrite, field, message });
            match anchored(pattern.as_ref()) {
                Ok(pattern) => match parts(replacement.as_ref(), &pattern) {
                    Ok(replacement) => compiled.push(Rewrite { pattern, replacement }),
                    Err(message) => fault("replacement", message),
                },
                Err(message) => fault("pattern", message),
            }
        }
        if faults.is_empty() { Ok(Self { rewrites: compiled.into() }) } else { Err(faults) }
    }

    /// The path to go on with; `None`: as it is.
    #[must_use]
    pub fn apply(&self, path: &str) -> Option<String> {
        self.rewrites.iter().find_map(|rewrite| {
            let captures = rewrite.pattern.captures(path)?;
            Some(rewrite.replace(path, &captures))
        })
    }

    /// Number of rewrites.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rewrites.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rewrites.is_empty()
    }
}

impl Rewrite {
    fn replace(&self, path: &str, captures: &Captures<'_>) -> String {
        let mut out = String::with_capacity(path.len() + 32);
        for part in &self.replacement {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Group(group) => out.push_str(captures.get(*group).map_or("", |found| found.as_str())),
            }
        }
        let end = captures.get(0).map_or(0, |found| found.end());
        out.push_str(path.get(end..).unwrap_or_default());
        out
    }
}

fn anchored(pattern: &str) -> Result<Regex, String> {
    let build = |pattern: &str| {
        RegexBuilder::new(pattern)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => {
                    format!("\"{pattern}\": takes over 1 MiB compiled: use smaller repetitions")
                }
                other => format!("{other}: mend the expression"),
            })
    };
    // Alone first: `a)|(b` would be well-formed inside the anchor's group and loosen it.
    build(pattern)?;
    build(&format!(r"\A(?:{pattern})"))
}

/// Takes a replacement apart and checks its groups against the pattern's.
fn parts(replacement: &str, pattern: &Regex) -> Result<Box<[Part]>, String> {
    if !replacement.starts_with('/') {
        return Err(format!("\"{replacement}\": the result must be an absolute path: begin with \"/\""));
    }
    if let Some(wrong) = replacement.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '?' | '#')) {
        return Err(format!(
            "\"{replacement}\": {wrong:?} cannot stand in a path: escape it as %XX or leave it out"
        ));
    }
    let mut parts = Vec::new();
    let mut rest = replacement;
    while let Some((literal, after)) = rest.split_once('$') {
        parts.push(Part::Literal(literal.into()));
        if let Some(after) = after.strip_prefix('$') {
            parts.push(Part::Literal("$".into()));
            rest = after;
            continue;
        }
        let name = if let Some(braced) = after.strip_prefix('{') {
            let (name, after) = braced
                .split_once('}')
                .ok_or_else(|| format!("\"{replacement}\": `${{` is not closed: add `}}`"))?;
            rest = after;
            name
        } else {
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let (digits, after) = after.split_at(end);
            rest = after;
            digits
        };
        parts.push(Part::Group(group(name, pattern).ok_or_else(|| {
            format!(
                "\"{replacement}\": the pattern has no group \"{name}\" (it has {}): write `$$` for a dollar sign",
                pattern.captures_len() - 1
            )
        })?));
    }
    parts.push(Part::Literal(rest.into()));
    Ok(parts.into())
}

fn group(name: &str, pattern: &Regex) -> Option<usize> {
    match name.parse() {
        Ok(number) => Some(number).filter(|number| *number < pattern.captures_len()),
        Err(_) => pattern.capture_names().position(|known| known == Some(name)),
    }
}

#[cfg(test)]
mod tests;
