//! Rates of admission: before everything else, so that each may act, only watch, or be off by itself.

use super::{
    AdmissionSettings,
    path::{set_bucket, take_both},
};
use crate::{ClassId, Timestamp, knobs::Mode, token_bucket::TokenBucket};

/// What the rates of admission say of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charged {
    /// There were tokens, or nobody asked for any.
    Paid,
    /// One that only watches would have refused it.
    Watched,
    /// One that acts refuses it; nothing was taken.
    Refused,
}

/// The rate of admission of an application and those of its classes.
#[derive(Clone, Debug)]
pub(super) struct IngressRates {
    /// Of the application, and of classes that have no mode of their own.
    mode: Mode,
    of_all: Option<TokenBucket>,
    classes: Vec<OfClass>,
}

#[derive(Clone, Debug)]
struct OfClass {
    bucket: Option<TokenBucket>,
    mode: Option<Mode>,
}

impl IngressRates {
    pub(super) fn new(now: Timestamp, settings: &AdmissionSettings) -> Self {
        let mut rates = Self { mode: settings.mode, of_all: None, classes: Vec::new() };
        rates.configure(now, settings);
        rates
    }

    pub(super) fn configure(&mut self, now: Timestamp, settings: &AdmissionSettings) {
        self.mode = settings.modes_in_force().ingress;
        set_bucket(&mut self.of_all, now, settings.ingress);
        if self.classes.len() < settings.classes.len() {
            self.classes.resize_with(settings.classes.len(), || OfClass { bucket: None, mode: None });
        }
        for (class, new) in self.classes.iter_mut().zip(&settings.classes) {
            set_bucket(&mut class.bucket, now, new.ingress);
            class.mode = new.modes.ingress;
        }
    }

    /// Takes a token of each bucket, or of neither: first of those that act, then of those that watch.
    pub(super) fn charge(&mut self, now: Timestamp, class: ClassId) -> Charged {
        let (of_all, own, mode) = (&mut self.of_all, &mut self.classes[class.index()], self.mode);
        let mut take = |wanted: Mode| {
            let own_mode = own.mode.unwrap_or(mode);
            let of_all = of_all.as_mut().filter(|_| mode == wanted);
            take_both(now, of_all, own.bucket.as_mut().filter(|_| own_mode == wanted))
        };
        if !take(Mode::Enforce) {
            return Charged::Refused;
        }
        if take(Mode::Watch) { Charged::Paid } else { Charged::Watched }
    }
}
