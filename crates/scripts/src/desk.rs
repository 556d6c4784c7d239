//! Answers what a script asks during a turn.

use std::{cell::RefCell, time::Duration};

use mlua::{Function, IntoLua, Lua, MultiValue, Value as LuaValue};
use tidegate_control::{
    Timestamp,
    archive::Stat,
    controller::{Level, Measure, Overload, Turn},
};

use crate::{
    budget::Budget,
    sandbox::script_line,
    values::{Options, described, from_knob, name, number, span, to_knob},
};

/// Jobs a script may register.
const JOBS_MAX: usize = 64;
/// Steps that a question to the host counts for, as it costs that much more than a step.
const QUESTION_STEPS: u64 = 100;
/// Resolution of maxima and minima unless another is asked for.
const EXTREMES_OF: Duration = Duration::from_secs(5);
/// Longest period of `every`.
pub const PERIOD_MAX: Duration = Duration::from_secs(86_400);

/// A function that a script wants run each period.
pub(crate) struct Job {
    pub(crate) period: Duration,
    pub(crate) work: Function,
}

/// What a script's functions reach during one turn.
pub(crate) struct Desk<'d, 't> {
    turn: RefCell<&'d mut Turn<'t>>,
    /// Where jobs are registered; only while the script begins.
    jobs: Option<&'d RefCell<Vec<Job>>>,
    budget: &'d Budget,
    name: &'d str,
    every_min: Duration,
}

impl<'d, 't> Desk<'d, 't> {
    pub(crate) const fn new(
        turn: &'d mut Turn<'t>,
        jobs: Option<&'d RefCell<Vec<Job>>>,
        budget: &'d Budget,
        name: &'d str,
        every_min: Duration,
    ) -> Self {
        Self { turn: RefCell::new(turn), jobs, budget, name, every_min }
    }

    /// Answers `true` and the value, or `false` and what is wrong. An error is raised only when the
    /// turn has run over.
    pub(crate) fn call(&self, lua: &Lua, arguments: MultiValue) -> mlua::Result<(bool, LuaValue)> {
        if let Err(overrun) = self.budget.take(QUESTION_STEPS) {
            self.budget.note_line(script_line(lua));
            return Err(mlua::Error::runtime(self.budget.describe(overrun)));
        }
        let mut arguments = arguments.into_iter();
        let mut next = || arguments.next().unwrap_or(LuaValue::Nil);
        let asked = name(&next(), "function").unwrap_or_default();
        let answer = match asked.as_str() {
            "every" => self.every(&next(), next()),
            "set" => self.set(lua, &next(), &next(), &next()),
            "get" => self.get(lua, &next()),
            "clear" => self.clear(lua, &next()),
            "measure" => self.measure(&next(), &next(), &next(), &next(), &next()),
            "overloaded" => self.overloaded(&next(), &next()),
            "now" => Ok(LuaValue::Number(seconds(self.turn.borrow().now()))),
            "applications" => {
                let names = self.turn.borrow().host().applications();
                list(lua, names)
            }
            "classes" => self.classes(lua, &next()),
            "log" => self.log(lua, &next(), &next()),
            other => Err(format!("there is no function {other}")),
        };
        match answer {
            Ok(value) => Ok((true, value)),
            Err(what) => Ok((false, LuaValue::String(lua.create_string(what)?))),
        }
    }

    fn every(&self, period: &LuaValue, work: LuaValue) -> Result<LuaValue, String> {
        let jobs = self.jobs.ok_or("every: belongs at the top of the script, not into what is run")?;
        let period = span(period, "every")?;
        if period < self.every_min || period > PERIOD_MAX {
            return Err(format!(
                "every: {period:?} is not allowed here: expected {:?} to {PERIOD_MAX:?}",
                self.every_min
            ));
        }
        let LuaValue::Function(work) = work else {
            return Err(format!("every: expected a function, not {}", described(&work)));
        };
        let mut jobs = jobs.borrow_mut();
        if jobs.len() >= JOBS_MAX {
            return Err(format!("every: more than {JOBS_MAX} jobs"));
        }
        jobs.push(Job { period, work });
        Ok(LuaValue::Nil)
    }

    fn set(
        &self,
        lua: &Lua,
        path: &LuaValue,
        value: &LuaValue,
        options: &LuaValue,
    ) -> Result<LuaValue, String> {
        let path = name(path, "set")?;
        let lasts = Options::new(options, &["lasts"])?.span("lasts")?;
        let mut turn = self.turn.borrow_mut();
        turn.set_why(self.here(lua));
        let (knob, _) = turn.get(&path).map_err(|error| error.to_string())?;
        let wanted = to_knob(knob, value).map_err(|what| format!("{path}: {what}"))?;
        let applied = match number(value) {
            // Of a negative number a knob's value shows nothing.
            Some(given) => turn.set_given(&path, wanted, &given, lasts),
            None => turn.set(&path, wanted, lasts),
        };
        let applied = applied.map_err(|error| error.to_string())?;
        from_knob(lua, applied).map_err(|error| error.to_string())
    }

    fn get(&self, lua: &Lua, path: &LuaValue) -> Result<LuaValue, String> {
        let path = name(path, "get")?;
        let (_, value) = self.turn.borrow().get(&path).map_err(|error| error.to_string())?;
        from_knob(lua, value).map_err(|error| error.to_string())
    }

    fn clear(&self, lua: &Lua, path: &LuaValue) -> Result<LuaValue, String> {
        let path = name(path, "clear")?;
        let mut turn = self.turn.borrow_mut();
        turn.set_why(self.here(lua));
        turn.clear(&path).map_err(|error| error.to_string())?;
        Ok(LuaValue::Nil)
    }

    fn measure(
        &self,
        stat: &LuaValue,
        scope: &LuaValue,
        meter: &LuaValue,
        window: &LuaValue,
        options: &LuaValue,
    ) -> Result<LuaValue, String> {
        let stat: Stat = name(stat, "statistic")?.parse().map_err(|_| "no such statistic".to_owned())?;
        let (scope, meter) = (name(scope, "scope")?, name(meter, "meter")?);
        let window = span(window, "window")?;
        let of = Options::new(options, &["resolution"])?.span("resolution")?.unwrap_or(EXTREMES_OF);
        let measure = Measure { scope: &scope, meter: &meter, window, stat, of: Some(of) };
        let value = self.turn.borrow().host().measure(&measure).map_err(|error| error.to_string())?;
        Ok(value.map_or(LuaValue::Nil, LuaValue::Number))
    }

    fn overloaded(&self, scope: &LuaValue, options: &LuaValue) -> Result<LuaValue, String> {
        let scope = if scope.is_nil() { String::new() } else { name(scope, "overloaded")? };
        let options = Options::new(options, &["window", "least", "late", "losing", "behind"])?;
        let usual = Overload::default();
        let bounds = Overload {
            window: options.span("window")?.unwrap_or(usual.window),
            least: options.number("least")?.unwrap_or(usual.least),
            late: options.number("late")?.unwrap_or(usual.late),
            losing: options.number("losing")?.unwrap_or(usual.losing),
            behind: options.number("behind")?.unwrap_or(usual.behind),
        };
        let judged = self.turn.borrow_mut().overloaded(&scope, &bounds);
        judged.map(LuaValue::Boolean).map_err(|error| error.to_string())
    }

    fn classes(&self, lua: &Lua, application: &LuaValue) -> Result<LuaValue, String> {
        let application = name(application, "classes")?;
        let names = self.turn.borrow().host().classes(&application).map_err(|error| error.to_string())?;
        list(lua, names)
    }

    fn log(&self, lua: &Lua, level: &LuaValue, text: &LuaValue) -> Result<LuaValue, String> {
        let (level, text) = if text.is_nil() {
            (Level::Info, level)
        } else {
            let given = name(level, "log")?;
            let level = Level::ALL.iter().find(|level| level.name() == given);
            (*level.ok_or_else(|| format!("log: there is no level \"{given}\""))?, text)
        };
        let shown = match text {
            LuaValue::String(text) => text.to_string_lossy().to_string(),
            other => described(other),
        };
        self.turn.borrow_mut().log(level, &format!("{}: {shown}", self.here(lua)));
        Ok(LuaValue::Nil)
    }

    /// The place in the script that asks.
    fn here(&self, lua: &Lua) -> String {
        match script_line(lua) {
            Some(line) => format!("{}:{line}", self.name),
            None => self.name.to_owned(),
        }
    }
}

fn list(lua: &Lua, names: Vec<String>) -> Result<LuaValue, String> {
    names.into_lua(lua).map_err(|error| error.to_string())
}

/// Seconds since the epoch.
fn seconds(at: Timestamp) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "the language's numbers are doubles")]
    let nanos = at.as_nanos() as f64;
    nanos / 1e9
}
