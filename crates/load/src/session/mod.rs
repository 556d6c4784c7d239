//! Sessions as people have them: pages, where they lead, forms, think time, pictures, cookies.
//!
//! A [`SessionModel`] is a Markov chain over pages, written as TOML:
//!
//! ```toml
//! entry = "Home"
//! think = "7s"                  # mean of the exponential pause after a page
//! interactions_max = 100        # a session has at most so many pages
//! images = ["/logo.svg", "/pictures/{item}.svg"]
//! images_per_page = 1.4         # fetched after each page, on the same connection
//!
//! [parameters]
//! item = { from = 1, to = 33000 }                  # drawn anew for each page
//! user = { from = 1, to = 10000, per = "session" } # the same for the whole session
//! unique = { unique = true }                       # a number never used before
//!
//! [page.Home]
//! path = "/"
//! next = { Search = 0.7, Sell = 0.3 }
//!
//! [page.Search]
//! path = "/search?item={item}"
//! next = { Search = 0.5, Home = 0.3 }
//! end = 0.2                     # the session ends here with this probability
//!
//! [page.Sell]
//! path = "/sell"
//! form = "name=Lot+{unique}&user={user}"           # sent by POST
//! next = { Home = 1.0 }
//! ```
//!
//! What a page leads to and its `end` sum to 1.

mod chain;
mod visit;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use http::HeaderMap;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

pub(crate) use self::{
    chain::Chain,
    visit::{Session, Step},
};
use crate::units::duration;

/// A Markov chain over pages; the module shows its TOML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionModel {
    /// The page a session begins with.
    pub entry: String,
    /// Mean of the exponential pause between a page and the next, up to 1 h.
    #[serde(default = "default_think", with = "duration")]
    pub think: Duration,
    /// A session has at most so many pages, 1 to 1,000,000.
    #[serde(default = "default_interactions_max")]
    pub interactions_max: u32,
    /// Paths of embedded images, taken in turn.
    #[serde(default)]
    pub images: Vec<String>,
    /// Mean number of images fetched after a page, 0 to 100: the whole part always, one more with
    /// the probability of the fraction.
    #[serde(default)]
    pub images_per_page: f64,
    /// Values for the blanks in paths and forms.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// The pages, by name.
    pub page: BTreeMap<String, Page>,
}

/// Where a blank's value comes from: a range, or never the same twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The smallest value of the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// How long a drawn value holds.
    #[serde(default)]
    pub per: Per,
    /// A number that no page of this run or an earlier one had, instead of a range.
    #[serde(default)]
    pub unique: bool,
}

/// How long a drawn value holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// For one page and its images.
    #[default]
    Page,
    /// For the whole session.
    Session,
}

/// One page of a [`SessionModel`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Request method; POST with a form, else GET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path and query, with blanks such as `{item}`.
    pub path: String,
    /// A form's fields, `application/x-www-form-urlencoded`, with blanks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// This page's mean number of images, where it is not the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<f64>,
    /// The pages it leads to and with which probability.
    #[serde(default)]
    pub next: BTreeMap<String, f64>,
    /// The probability that the session ends here.
    #[serde(default)]
    pub end: f64,
}

/// The sessions of a class: a file, or the model itself. In a plan's TOML a string or a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Sessions {
    /// A TOML file, relative to the working directory.
    File(PathBuf),
    /// The model.
    Model(Box<SessionModel>),
}

impl SessionModel {
    /// Reads a model from TOML; what it says is checked with the plan.
    ///
    /// # Errors
    /// The text is no TOML or has unknown or missing keys; the fault shows the line.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|fault| fault.to_string())
    }
}

impl Sessions {
    /// The model, read from its file where it has one.
    ///
    /// # Errors
    /// The file cannot be read or is no model.
    pub fn read(&self) -> Result<SessionModel, String> {
        match self {
            Self::Model(model) => Ok((**model).clone()),
            Self::File(path) => std::fs::read_to_string(path)
                .map_err(|fault| fault.to_string())
                .and_then(|text| SessionModel::from_toml(&text))
                .map_err(|fault| format!("{}: {fault}", path.display())),
        }
    }

    pub(crate) fn resolve(&self, headers: &HeaderMap) -> Result<Chain, Vec<String>> {
        let model = self.read().map_err(|fault| vec![fault])?;
        Chain::new(&model, headers).map_err(|faults| match self {
            Self::Model(_) => faults,
            Self::File(path) => {
                faults.into_iter().map(|fault| format!("{}: {fault}", path.display())).collect()
            }
        })
    }
}

impl From<SessionModel> for Sessions {
    fn from(model: SessionModel) -> Self {
        Self::Model(Box::new(model))
    }
}

impl Serialize for Sessions {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::File(path) => path.serialize(to),
            Self::Model(model) => model.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Sessions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct FileOrModel;

        // Not `untagged`: that would answer a wrong key in the model with "no variant matched".
        impl<'de> Visitor<'de> for FileOrModel {
            type Value = Sessions;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a session file, or a table with the model itself")
            }

            fn visit_str<E>(self, text: &str) -> Result<Sessions, E> {
                Ok(Sessions::File(PathBuf::from(text)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Sessions, A::Error> {
                SessionModel::deserialize(MapAccessDeserializer::new(map)).map(Sessions::from)
            }
        }

        from.deserialize_any(FileOrModel)
    }
}

const fn default_think() -> Duration {
    Duration::from_secs(7)
}
const fn default_interactions_max() -> u32 {
    100
}

#[cfg(test)]
mod tests;
