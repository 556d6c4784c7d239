//! The `Priority` header field of RFC 9218: how urgent a response is to its client.

use std::convert::Infallible;

use sfv::{
    BareItemFromInput, KeyRef, Parser,
    visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor},
};

/// What a `Priority` field says.
///
/// A dictionary (RFC 9651, section 3.2) of which `u` and `i` are known (RFC 9218, sections 4.1
/// and 4.2). Unknown members and values out of range or of another type are ignored (section 4);
/// a field that is no dictionary says nothing at all. Cost: one pass over the field.
///
/// ```
/// use tidegate_control::priority_header::PriorityHeader;
///
/// let said = PriorityHeader::parse([&b"u=1, i"[..]]);
/// assert_eq!((said.urgency, said.incremental), (1, true));
/// assert_eq!(PriorityHeader::parse([&b"u=9"[..]]), PriorityHeader::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityHeader {
    /// 0 (most urgent) to 7; 3 when nothing is said.
    pub urgency: u8,
    /// Whether a response is of use in parts.
    pub incremental: bool,
}

impl Default for PriorityHeader {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl PriorityHeader {
    /// Reads the lines of the field, which count as one dictionary in order.
    #[must_use]
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Self {
        lines
            .into_iter()
            .try_fold(Self::default(), |said, line| Parser::new(line).parse_dictionary_with_visitor(said))
            .unwrap_or_default()
    }

    /// How many steps of priority (0 least, 7 most) the client asks for above the usual: 3 for
    /// urgency 0, none for 3, -4 for 7.
    #[must_use]
    pub const fn steps(self) -> i8 {
        3 - self.urgency as i8
    }
}

impl<'de> DictionaryVisitor<'de> for PriorityHeader {
    type Out = Self;
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        // Of a member given twice the last counts (RFC 9651, section 4.2.2), though it be one to ignore.
        Ok(match key.as_str() {
            "u" => {
                self.urgency = Self::default().urgency;
                Some(Member { said: self, urgency: true })
            }
            "i" => {
                self.incremental = Self::default().incremental;
                Some(Member { said: self, urgency: false })
            }
            _ => None,
        })
    }

    fn finish(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

/// A known member of the dictionary.
struct Member<'a> {
    said: &'a mut PriorityHeader,
    urgency: bool,
}

impl<'de> EntryVisitor<'de> for Member<'_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        Ok(Ignored)
    }
}

impl<'de> ItemVisitor<'de> for Member<'_> {
    type Out = ();
    type Error = Infallible;

    fn bare_item(
        self,
        item: BareItemFromInput<'de>,
    ) -> Result<impl sfv::visitor::ParameterVisitor<'de, Out = ()>, Infallible> {
        match item {
            BareItemFromInput::Integer(value) if self.urgency => {
                if let Ok(urgency @ 0..=7) = u8::try_from(i64::from(value)) {
                    self.said.urgency = urgency;
                }
            }
            BareItemFromInput::Boolean(value) if !self.urgency => self.said.incremental = value,
            _ => {}
        }
        Ok(Ignored)
    }
}

#[cfg(test)]
mod tests;
