//! A page of the operator's own for those who wait: HTML with places for what is known of the visitor.
//!
//! ```html
//! <p>Your turn is at {{time}}; {{ahead}} people are before you.</p>
//! <progress max="100" value="{{progress}}"></progress> {{form}}
//! ```

use std::fmt;

/// Largest page read, bytes.
const BYTES_MAX: usize = 256 * 1024;

/// A page with places for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTemplate {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(PageValue),
}

macro_rules! values {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal;)+) => {
        /// What can stand in a page.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PageValue { $($(#[$doc])+ $variant,)+ }

        impl PageValue {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name between the braces.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Self::$variant => $name,)+ } }
        }
    };
}

values! {
    /// Tag of the visitor's language, such as `de`.
    Language = "language";
    /// Direction of its writing: `ltr` or `rtl`.
    Direction = "direction";
    /// When the visitor is let in, as RFC 3339 has it.
    Time = "time";
    /// Whole seconds until then.
    Seconds = "seconds";
    /// The same as `2:05`.
    Left = "left";
    /// People promised before.
    Ahead = "ahead";
    /// Percent of the wait that is over.
    Progress = "progress";
    /// Where the visitor goes on, a reference on this host.
    To = "to";
    /// Where a script asks how things stand; it is answered with `left_ms` and `ahead`.
    Ask = "ask";
    /// What was sent and is sent again: a form with its button, or nothing.
    Form = "form";
    /// Title in the visitor's language.
    Title = "title";
    /// What there is to say in the visitor's language.
    Message = "message";
}

/// What is wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFault(String);

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PageTemplate {
    /// Reads a page.
    ///
    /// # Errors
    ///
    /// [`PageFault`] if it is too large, or names a value there is not.
    pub fn parse(text: &str) -> Result<Self, PageFault> {
        if text.len() > BYTES_MAX {
            return Err(PageFault(format!(
                "is larger than {BYTES_MAX} bytes: leave pictures to other files"
            )));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            let line = text.len() - behind.len();
            let line = text.get(..line).unwrap_or_default().lines().count();
            let Some((name, after)) = behind.split_once("}}") else {
                return Err(PageFault(format!("line {line}: {{{{ without }}}}")));
            };
            let Some(value) = PageValue::ALL.iter().find(|value| value.name() == name.trim()) else {
                let known: Vec<_> = PageValue::ALL.iter().map(|value| value.name()).collect();
                return Err(PageFault(format!(
                    "line {line}: {{{{{}}}}} is no value: there are {}",
                    name.escape_debug(),
                    known.join(", ")
                )));
            };
            parts.extend([Part::Text(before.to_owned()), Part::Value(*value)]);
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self { parts })
    }

    /// Whether a value has a place in it.
    #[must_use]
    pub fn has(&self, value: PageValue) -> bool {
        self.parts.contains(&Part::Value(value))
    }

    /// The page with its values, which `write` writes: escaped, but for [`PageValue::Form`].
    #[must_use]
    pub fn fill(&self, mut write: impl FnMut(PageValue, &mut String)) -> String {
        let mut page = String::with_capacity(4096);
        for part in &self.parts {
            match part {
                Part::Text(text) => page.push_str(text),
                Part::Value(value) => write(*value, &mut page),
            }
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_they_are_named() {
        let page = PageTemplate::parse("a{{time}}b{{ ahead }}{{time}}c").unwrap();
        assert_eq!(page.fill(|value, page| page.push_str(value.name())), "atimebaheadtimec");
        assert!(page.has(PageValue::Ahead) && !page.has(PageValue::Form));
        assert_eq!(PageTemplate::parse("{a}}").unwrap().fill(|_, _| {}), "{a}}");
    }

    #[test]
    fn what_is_no_value_is_said_with_its_line() {
        let fault = |text: &str| PageTemplate::parse(text).unwrap_err().to_string();
        assert!(fault("x\n{{nonsense}}").starts_with("line 2: {{nonsense}} is no value"));
        assert!(fault("x\n\n{{time").starts_with("line 3:"));
        assert!(fault(&" ".repeat(BYTES_MAX + 1)).contains("262144"));
    }

    /// A page whose values are their own names in braces is the page again, but for blanks in the braces.
    #[test]
    fn any_text_is_a_page_or_none() {
        bolero::check!().with_type::<Vec<(String, u8)>>().for_each(|pieces| {
            let braces = |at: &u8| match PageValue::ALL.get(usize::from(*at)) {
                Some(value) => format!("{{{{ {} }}}}", value.name()),
                None => "{{}}{"[..usize::from(at % 6)].to_owned(),
            };
            let text: String = pieces.iter().map(|(text, at)| text.clone() + &braces(at)).collect();
            let lines = text.lines().count();
            match PageTemplate::parse(&text) {
                Ok(page) => {
                    let written =
                        page.fill(|value, page| page.push_str(&format!("{{{{{}}}}}", value.name())));
                    assert_eq!(PageTemplate::parse(&written), Ok(page));
                }
                Err(PageFault(said)) => {
                    let line =
                        said.strip_prefix("line ").and_then(|rest| rest.split_once(':')?.0.parse().ok());
                    assert!(line.is_some_and(|line: usize| (1..=lines).contains(&line)), "{said}");
                }
            }
        });
    }
}
