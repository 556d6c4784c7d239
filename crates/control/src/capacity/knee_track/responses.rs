//! How much the response times of a limit vary.

/// Response times: how many, their sum and that of their squares, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Responses {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Responses {
    pub(super) fn add(&mut self, seconds: f64) {
        self.count += 1.0;
        self.sum += seconds;
        self.squares += seconds * seconds;
    }

    /// Their squared coefficient of variation `c²`, variance over squared mean; 0 of none.
    pub(super) fn variation(&self) -> f64 {
        let mean = self.sum / self.count.max(1.0);
        let variance = (self.squares / self.count.max(1.0) - mean * mean).max(0.0);
        if mean > 0.0 { variance / (mean * mean) } else { 0.0 }
    }
}

/// How much the response times of several limits vary, each of these by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Variation {
    count: f64,
    /// Of `c²`, as many times as there were response times.
    sum: f64,
}

impl Variation {
    /// Those of one limit.
    pub(super) fn add(&mut self, responses: &Responses) {
        self.count += responses.count;
        self.sum += responses.count * responses.variation();
    }

    /// Response times.
    pub(super) const fn count(&self) -> f64 {
        self.count
    }

    /// The mean of their limits' `c²`; 0 of none.
    pub(super) fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }
}
