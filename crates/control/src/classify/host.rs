//! Host names of rules: exact, or any subdomain of a name.

/// A host name as rules and applications name it: `www.example.org`, or `*.example.org` for every
/// name below `example.org`, at any depth, but not `example.org` itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern {
    /// The name, or what follows `*` (with its dot) of a wildcard.
    text: Box<str>,
    wildcard: bool,
}

impl HostPattern {
    /// Reads a pattern: lower case, without port; a final dot (the root) is dropped.
    ///
    /// # Errors
    ///
    /// What is wrong and how to mend it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, wildcard) = match text.strip_prefix('*') {
            Some("") => return Err("\"*\" stands for every host: leave `hosts` out instead".into()),
            Some(rest) if rest.starts_with('.') => (rest, true),
            Some(_) => return Err(format!("\"{text}\": `*` stands for whole labels only: write \"*.name\"")),
            None => (text, false),
        };
        let name = without_root(name);
        if name.is_empty() || name == "." {
            return Err("a host name is empty: write a name such as \"www.example.org\"".into());
        }
        if let Some(wrong) = name.chars().find(|c| c.is_ascii_uppercase()) {
            return Err(format!(
                "\"{text}\": host names are compared in lower case: write {wrong} as {}",
                wrong.to_ascii_lowercase()
            ));
        }
        let after_address = name.rsplit_once(']').map_or(name, |(_, rest)| rest);
        if after_address.contains(':') {
            return Err(format!("\"{text}\": host names are compared without port: leave it out"));
        }
        if let Some(wrong) = name.chars().find(|c| !c.is_ascii_graphic() || "*/?#@\\".contains(*c)) {
            return Err(format!(
                "\"{text}\": {wrong:?} cannot stand in a host name; names beyond ASCII are written \"xn--…\""
            ));
        }
        Ok(Self { text: name.into(), wildcard })
    }

    /// Whether a host (lower case, without port) is named by this pattern.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        let host = without_root(host);
        if self.wildcard {
            host.len() > self.text.len() && host.ends_with(&*self.text)
        } else {
            *host == *self.text
        }
    }

    /// The one name it stands for.
    pub(super) fn exact(&self) -> Option<&str> {
        (!self.wildcard).then_some(&*self.text)
    }

    /// Whether it stands for all subdomains of a name.
    #[must_use]
    pub const fn is_wildcard(&self) -> bool {
        self.wildcard
    }
}

/// The name without the dot that stands for the root: `example.org.` is `example.org`.
pub(super) fn without_root(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}
