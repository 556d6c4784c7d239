//! A session model whose texts have been parsed and whose sums have been checked.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};

use super::{Page, Parameter, Per, SessionModel};
use crate::{random::SplitMix64, request::RequestTemplate};

/// The most pages a model may have.
const PAGES_MAX: usize = 1_000;
/// Probabilities of a page may miss their sum of 1 by this, for thirds written in decimals.
const SUM_TOLERANCE: f64 = 1e-6;
const THINK_MAX: Duration = Duration::from_secs(3600);
const IMAGES_MAX: f64 = 100.0;

/// A Markov chain ready to be walked.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(super) entry: usize,
    pub(crate) think: Duration,
    pub(super) interactions_max: u32,
    pub(super) parameters: Vec<Source>,
    pub(super) pages: Vec<PageTemplate>,
    images: Vec<Text>,
    headers: HeaderMap,
}

/// Where a parameter's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Range { from: u64, to: u64, per: Per },
    Unique { per: Per },
}

/// One page, parsed.
#[derive(Debug)]
pub(super) struct PageTemplate {
    pub(super) name: String,
    pub(super) images: f64,
    pub(super) end: f64,
    /// Where it leads, with probabilities of going there.
    pub(super) next: Vec<(f64, usize)>,
    method: Method,
    path: Text,
    form: Option<Text>,
}

/// Text with blanks for parameters.
#[derive(Debug)]
struct Text(Vec<Piece>);

#[derive(Debug)]
enum Piece {
    Given(String),
    Blank(usize),
}

impl Chain {
    /// Checks the model; every fault names its place.
    pub(super) fn new(model: &SessionModel, headers: &HeaderMap) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        if model.think > THINK_MAX {
            faults.push("think: must be at most 1h".to_owned());
        }
        if !(1..=1_000_000).contains(&model.interactions_max) {
            faults.push("interactions_max: must be from 1 to 1000000".to_owned());
        }
        if !(1..=PAGES_MAX).contains(&model.page.len()) {
            faults.push(format!("page: give 1 to {PAGES_MAX} pages"));
        }
        let names: Vec<&str> = model.page.keys().map(String::as_str).collect();
        let entry = names.iter().position(|name| *name == model.entry);
        if entry.is_none() {
            faults.push(format!("entry: there is no page `{}`; {}", model.entry, known(&names)));
        }
        let parameters = sources(&model.parameters, &mut faults);
        let blanks: Vec<&str> = model.parameters.keys().map(String::as_str).collect();
        let mut read = Reader { blanks: &blanks, names: &names, model, faults: &mut faults };
        let pages: Vec<_> = model.page.iter().filter_map(|(name, page)| read.page(name, page)).collect();
        let images: Vec<_> = model.images.iter().filter_map(|path| read.target("images", path)).collect();
        match entry {
            Some(entry) if faults.is_empty() => Ok(Self {
                entry,
                think: model.think,
                interactions_max: model.interactions_max,
                parameters,
                pages,
                images,
                headers: headers.clone(),
            }),
            _ => Err(faults),
        }
    }

    /// The names of the pages, in the order of their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.pages.iter().map(|page| page.name.as_str())
    }

    /// The request for a page with these values in its blanks, and its form.
    pub(super) fn page(&self, page: usize, values: &[u64]) -> Option<(RequestTemplate, Bytes)> {
        let page = self.pages.get(page)?;
        let mut headers = self.headers.clone();
        let form = page.form.as_ref().map(|form| form.fill(values));
        if form.is_some() {
            let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
            headers.entry(header::CONTENT_TYPE).or_insert(kind);
        }
        let target = RequestTemplate::parse_target(&page.path.fill(values))?;
        let template = RequestTemplate { method: page.method.clone(), target, headers };
        Some((template, form.map(Bytes::from).unwrap_or_default()))
    }

    /// The request for the n-th image of a page.
    pub(super) fn image(&self, number: usize, values: &[u64]) -> Option<(RequestTemplate, Bytes)> {
        let path = self.images.get(number % self.images.len().max(1))?;
        let target = RequestTemplate::parse_target(&path.fill(values))?;
        let template = RequestTemplate { method: Method::GET, target, headers: self.headers.clone() };
        Some((template, Bytes::new()))
    }
}

impl PageTemplate {
    /// How many images this visit of the page has.
    pub(super) fn draw_images(&self, random: &mut SplitMix64) -> usize {
        let whole = self.images.floor();
        // At most a hundred, checked when the model was read.
        whole as usize + usize::from(random.unit() <= self.images - whole)
    }

    /// Where it leads this time; `None` is the end of the session.
    pub(super) fn draw_next(&self, random: &mut SplitMix64) -> Option<usize> {
        let mut left = random.unit();
        for (probability, page) in &self.next {
            left -= probability;
            if left <= 0.0 {
                return Some(*page);
            }
        }
        // What remains is the end's share; of a page without one it is rounding.
        if self.end > 0.0 { None } else { self.next.last().map(|(_, page)| *page) }
    }
}

impl Text {
    fn fill(&self, values: &[u64]) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Given(given) => text.push_str(given),
                Piece::Blank(index) => {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{}", values.get(*index).copied().unwrap_or_default());
                }
            }
        }
        text
    }
}

fn sources(parameters: &BTreeMap<String, Parameter>, faults: &mut Vec<String>) -> Vec<Source> {
    let mut sources = Vec::new();
    for (name, parameter) in parameters {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            faults.push(format!("parameters.{name}: a name has letters, digits and `_`"));
        }
        let per = parameter.per;
        match (parameter.unique, parameter.from, parameter.to) {
            (true, None, None) => sources.push(Source::Unique { per }),
            (false, Some(from), Some(to)) if from <= to => sources.push(Source::Range { from, to, per }),
            (false, Some(_), Some(_)) => faults.push(format!("parameters.{name}: `from` is above `to`")),
            _ => faults.push(format!("parameters.{name}: give `from` and `to`, or `unique = true`")),
        }
    }
    sources
}

/// Reads the texts of a model against its names.
struct Reader<'a> {
    blanks: &'a [&'a str],
    names: &'a [&'a str],
    model: &'a SessionModel,
    faults: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn page(&mut self, name: &str, page: &Page) -> Option<PageTemplate> {
        let place = format!("page.{name}");
        let path = self.target(&place, &page.path);
        let form = page.form.as_ref().map(|form| self.text(&format!("{place}.form"), form));
        let method = match (&page.method, &page.form) {
            (Some(method), _) => Method::from_bytes(method.as_bytes()).ok().filter(|m| *m != Method::CONNECT),
            (None, Some(_)) => Some(Method::POST),
            (None, None) => Some(Method::GET),
        };
        if method.is_none() {
            let method = page.method.as_deref().unwrap_or_default();
            self.faults.push(format!("{place}.method: `{method}` is not a method this generator sends"));
        }
        let images = page.images.unwrap_or(self.model.images_per_page);
        if !(0.0..=IMAGES_MAX).contains(&images) {
            self.faults.push(format!("{place}.images: must be from 0 to {IMAGES_MAX}"));
        } else if images > 0.0 && self.model.images.is_empty() {
            self.faults.push(format!("{place}: has images, but `images` names none"));
        }
        let mut next = Vec::new();
        for (to, probability) in &page.next {
            match self.names.iter().position(|name| name == to) {
                Some(page) => next.push((*probability, page)),
                None => {
                    self.faults.push(format!("{place}.next: there is no page `{to}`; {}", known(self.names)))
                }
            }
        }
        let parts = page.next.values().chain([&page.end]);
        if parts.clone().any(|probability| !(0.0..=1.0).contains(probability)) {
            self.faults.push(format!("{place}: a probability lies outside 0 to 1"));
        }
        let sum: f64 = parts.sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            self.faults.push(format!("{place}: next and end sum to {sum}; they must sum to 1"));
        }
        Some(PageTemplate {
            name: name.to_owned(),
            images,
            end: page.end,
            next,
            method: method?,
            path: path?,
            form: form.flatten(),
        })
    }

    /// A path, tried with the largest number there is in each blank.
    fn target(&mut self, place: &str, path: &str) -> Option<Text> {
        let text = self.text(place, path)?;
        let filled = text.fill(&vec![u64::MAX; self.blanks.len()]);
        if RequestTemplate::parse_target(&filled).is_none() {
            self.faults
                .push(format!("{place}: `{path}` is not a path; it starts with `/` and is percent-encoded"));
            return None;
        }
        Some(text)
    }

    fn text(&mut self, place: &str, text: &str) -> Option<Text> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((given, after)) = rest.split_once('{') {
            let Some((blank, after)) = after.split_once('}') else {
                self.faults.push(format!("{place}: `{text}` has a `{{` without its `}}`"));
                return None;
            };
            let Some(index) = self.blanks.iter().position(|name| *name == blank) else {
                let known = known(self.blanks);
                self.faults.push(format!("{place}: there is no parameter `{blank}`; {known}"));
                return None;
            };
            pieces.extend([Piece::Given(given.to_owned()), Piece::Blank(index)]);
            rest = after;
        }
        pieces.push(Piece::Given(rest.to_owned()));
        Some(Text(pieces))
    }
}

fn known(names: &[&str]) -> String {
    if names.is_empty() { "there are none".to_owned() } else { format!("there are {}", names.join(", ")) }
}
