//! A set of processors as the kernel writes it: "0-3,8".

use std::{fmt, str::FromStr};

/// The highest number a processor may have: what an affinity holds ([`rustix::thread::CpuSet::MAX_CPU`]).
const HIGHEST: u32 = 1023;

/// Numbers of processors, ascending, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List(Vec<u32>);

impl List {
    /// Of any numbers; those twice count once, those above 1023 are left out.
    #[must_use]
    pub fn new(numbers: impl IntoIterator<Item = u32>) -> Self {
        let mut numbers: Vec<u32> = numbers.into_iter().filter(|number| *number <= HIGHEST).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self(numbers)
    }

    /// Its numbers.
    #[must_use]
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }
}

impl FromStr for List {
    type Err = String;

    /// # Errors
    ///
    /// The text is not numbers and ranges of them, from 0 to 1023, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |text: &str| {
                text.trim().parse::<u32>().ok().filter(|number| *number <= HIGHEST).ok_or_else(|| {
                    format!("\"{}\" is no number from 0 to {HIGHEST}", text.trim().escape_debug())
                })
            };
        let mut numbers = Vec::new();
        for part in text.split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("{first}-{last} goes down"));
            }
            numbers.extend(first..=last);
        }
        Ok(Self::new(numbers))
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut separator = "";
        while let Some(&first) = rest.first() {
            let length =
                rest.iter().zip(first..).take_while(|(number, expected)| *number == expected).count();
            let (run, after) = rest.split_at(length);
            match run {
                [only] => write!(f, "{separator}{only}")?,
                [first, .., last] => write!(f, "{separator}{first}-{last}")?,
                [] => {}
            }
            separator = ",";
            rest = after;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_kernel_writes_it() {
        for (text, numbers, written) in [
            ("", vec![], ""),
            ("\n", vec![], ""),
            ("0-1\n", vec![0, 1], "0-1"),
            ("8, 0-2,1", vec![0, 1, 2, 8], "0-2,8"),
            ("1023", vec![1023], "1023"),
        ] {
            let list: List = text.parse().expect(text);
            assert_eq!(list.numbers(), numbers);
            assert_eq!(list.to_string(), written);
        }
        for bad in ["a", "1-", "-1", "3-2", "1024", "1,,2", "0-99999999999"] {
            assert!(bad.parse::<List>().is_err(), "{bad}");
        }
    }

    #[test]
    fn any_text_is_a_list_or_a_fault() {
        bolero::check!().with_type::<String>().for_each(|text| {
            if let Ok(list) = text.parse::<List>() {
                assert_eq!(list.to_string().parse::<List>(), Ok(list));
            }
        });
    }
}
