//! A host for tests: a shop of four classes whose server has a capacity, second by second, with real archives.

use std::time::Duration;

use tidegate_control::{
    Timestamp,
    archive::{Archives, Layout, Reading},
    controller::{Change, Controller, Host, HostError, Level, Measure, Parts, measure},
    knobs::{Knob, Scope, Value, Values},
    meters::Meter,
    refusal::Refusal,
};

const CLASSES: [&str; 4] = ["default", "home", "checkout", "robots"];
const SECOND: Duration = Duration::from_secs(1);
/// A client waits this long for its reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// A fluid model: the server answers `capacity` requests a second in the order of arrival; who has
/// waited for longer than ten seconds has left when the answer comes, and was served in vain.
pub(crate) struct Shop {
    pub(crate) capacity: u64,
    /// Arrivals a second of each class.
    pub(crate) arrivals: [u64; 4],
    pub(crate) lines: Vec<(Level, String)>,
    /// Every change, when and to what.
    pub(crate) applied: Vec<(Duration, Change)>,
    pub(crate) refuses: bool,
    /// Answered in time in the last second.
    pub(crate) good: u64,
    start: Timestamp,
    now: Timestamp,
    application: Values,
    classes: [Values; 4],
    archives: Archives,
    /// Requests admitted and not answered: when, of which class, how many.
    backlog: Vec<(Timestamp, usize, u64)>,
}

impl Shop {
    pub(crate) fn new() -> Self {
        let start = Timestamp::EPOCH + Duration::from_secs(1_700_000_000);
        Self {
            capacity: 100,
            arrivals: [30, 30, 0, 0],
            lines: Vec::new(),
            applied: Vec::new(),
            refuses: false,
            good: 0,
            start,
            now: start,
            application: Values::defaults(Scope::Application),
            classes: std::array::from_fn(|_| Values::defaults(Scope::Class)),
            archives: Archives::new(Layout::default()),
            backlog: Vec::new(),
        }
    }

    /// The present value of a knob.
    pub(crate) fn value(&self, path: &str) -> Value {
        self.knob(path).expect("a knob").1
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now.since(self.start)
    }

    pub(crate) fn has_line(&self, part: &str) -> bool {
        self.lines.iter().any(|(_, line)| line.contains(part))
    }

    /// Runs the shop and its controller for so many seconds.
    pub(crate) fn run(&mut self, controller: &mut dyn Controller, seconds: u64) {
        for _ in 0..seconds {
            self.second();
            while controller.next_tick().is_some_and(|due| due <= self.now) {
                controller.tick(self);
            }
        }
    }

    /// One second passes.
    pub(crate) fn second(&mut self) {
        let (from, to) = (self.now, self.now + SECOND);
        let mut readings: [Reading; 4] = std::array::from_fn(|_| Reading::new(Scope::Class));
        let all: u64 = self.arrivals.iter().sum();
        let rate = self.application.value(Knob::APPLICATION_INGRESS_RATE);
        for (class, reading) in readings.iter_mut().enumerate() {
            let arrived = self.arrivals[class];
            // Each class has its part of the application's rate.
            let part = limited(all, rate) * arrived / all.max(1);
            let admitted = limited(part, self.classes[class].value(Knob::INGRESS_RATE));
            reading.add(Meter::ARRIVED, arrived);
            reading.add(Meter::STARTED, admitted);
            reading.add_labelled(Meter::REFUSED, Refusal::IngressRate.index(), arrived - admitted);
            self.backlog.push((to, class, admitted));
        }
        self.good = 0;
        let mut left = self.capacity;
        for (at, class, waiting) in &mut self.backlog {
            let served = left.min(*waiting);
            left -= served;
            *waiting -= served;
            let time = to.since(*at) + Duration::from_millis(50);
            if time > PATIENCE {
                readings[*class].add(Meter::ABANDONED, served);
                continue;
            }
            self.good += served;
            readings[*class].add(Meter::GOOD, served);
            for _ in 0..served {
                readings[*class].record(Meter::RESPONSE_TIME, time);
            }
        }
        self.backlog.retain(|(_, _, waiting)| *waiting > 0);
        for (class, reading) in readings.iter().enumerate() {
            self.archives.record(&format!("shop/{}", CLASSES[class]), from, to, reading);
        }
        let mut application = Reading::new(Scope::Application);
        application.level(Meter::IN_FLIGHT, self.backlog.iter().map(|(_, _, waiting)| *waiting).sum());
        self.archives.record("shop", from, to, &application);
        self.now = to;
    }
}

impl Host for Shop {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn applications(&self) -> Vec<String> {
        vec!["shop".to_owned()]
    }

    fn classes(&self, application: &str) -> Result<Vec<String>, HostError> {
        match application {
            "shop" => Ok(CLASSES.map(str::to_owned).to_vec()),
            other => Err(HostError::Knob(format!("there is no application \"{other}\""))),
        }
    }

    fn measure(&self, asked: &Measure<'_>) -> Result<Option<f64>, HostError> {
        let parts =
            |application: &str| Some(Parts { classes: self.classes(application).ok()?, servers: None });
        measure(&self.archives, parts, self.now, asked)
    }

    fn knob(&self, path: &str) -> Result<(Knob, Value), HostError> {
        let none = || HostError::Knob(format!("{path}: there is no such knob"));
        let (class, name) = path.strip_prefix("shop/").ok_or_else(none)?.rsplit_once('/').unzip();
        let name = name.or_else(|| path.strip_prefix("shop/")).ok_or_else(none)?;
        match class {
            None => {
                let knob = Knob::find(Scope::Application, name).ok_or_else(none)?;
                Ok((knob, self.application.value(knob)))
            }
            Some(class) => {
                let class = CLASSES.iter().position(|known| *known == class).ok_or_else(none)?;
                let knob = Knob::find(Scope::Class, name).ok_or_else(none)?;
                Ok((knob, self.classes[class].value(knob)))
            }
        }
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), HostError> {
        if self.refuses {
            return Err(HostError::Knob("they contradict one another".to_owned()));
        }
        for change in changes {
            let (knob, _) = self.knob(&change.path)?;
            let class = CLASSES.iter().position(|class| change.path.starts_with(&format!("shop/{class}/")));
            let values = class.map_or(&mut self.application, |class| &mut self.classes[class]);
            values.set(knob, change.value).expect("a turn sets what the row allows");
            self.applied.push((self.elapsed(), change.clone()));
        }
        Ok(())
    }

    fn log(&mut self, level: Level, text: &str) {
        self.lines.push((level, text.to_owned()));
    }
}

/// What of `arrived` a rate lets in within a second.
fn limited(arrived: u64, rate: Value) -> u64 {
    match rate {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small rate")]
        Value::Rate(rate) => arrived.min(rate as u64),
        _ => arrived,
    }
}
