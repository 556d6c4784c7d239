//! The sandbox a script runs in: which of the language is there, and what has been bounded or taken out.

use std::rc::Rc;

use mlua::{
    Function, Lua, LuaOptions, Result, StdLib, Table, Value, VmState,
    chunk::{ChunkMode, Compiler},
    state::{GcIncParams, GcMode},
};

use crate::budget::Budget;

const PRELUDE: &str = include_str!("prelude.luau");
/// Bytes of a string that patterns may be asked of.
const BYTES_MAX: u32 = 64 * 1024;
/// Items that may be sorted or moved at once.
const ITEMS_MAX: u32 = 64 * 1024;

/// What of the base library is of no use to a control law or leads out of the sandbox.
const TAKEN_OUT: &[&str] =
    &["require", "loadstring", "collectgarbage", "gcinfo", "getfenv", "setfenv", "newproxy"];

/// A state of the language with Tidegate's functions in it, and the table by which they call.
pub(crate) struct Sandbox {
    pub(crate) lua: Lua,
    /// Its field `call` is what the functions call, during a turn.
    pub(crate) bridge: Table,
}

impl Sandbox {
    /// A state in which at most `memory` bytes are in use, whose steps are taken from `budget` and
    /// whose random numbers follow from `seed`.
    pub(crate) fn new(memory: usize, seed: u64, budget: &Rc<Budget>) -> Result<Self> {
        let libraries =
            StdLib::COROUTINE | StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::BIT | StdLib::UTF8;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let globals = lua.globals();
        for name in TAKEN_OUT {
            globals.raw_set(*name, Value::Nil)?;
        }
        let randomseed: Function = globals.get::<Table>("math")?.get("randomseed")?;
        randomseed.call::<()>(fold(seed))?;
        let bridge = lua.create_table()?;
        let prelude = lua.load(PRELUDE).set_name("=tidegate").into_function()?;
        let api: Table = prelude.call((&bridge, BYTES_MAX, ITEMS_MAX))?;
        for pair in api.pairs::<String, Function>() {
            let (name, function) = pair?;
            globals.raw_set(name, function)?;
        }
        lua.sandbox(true)?;
        // In the script's own environment, where it may be written to.
        lua.globals().raw_set("state", lua.create_table()?)?;
        // There is no collection in need: without eager ones garbage would fill what there is.
        let eager = GcIncParams::default().goal(125).step_multiplier(1000);
        lua.gc_set_mode(GcMode::Incremental(eager));
        lua.set_memory_limit(memory)?;
        let budget = Rc::clone(budget);
        lua.set_interrupt(move |lua| match budget.take(1) {
            Ok(()) => Ok(VmState::Continue),
            Err(overrun) => {
                budget.note_line(script_line(lua));
                Err(mlua::Error::runtime(budget.describe(overrun)))
            }
        });
        Ok(Self { lua, bridge })
    }

    /// Compiles a script; its name stands before the line in every message.
    pub(crate) fn compile(&self, name: &str, source: &str) -> Result<Function> {
        // As a constant of the chunk, `state` would stay the table it was at first.
        let compiler = Compiler::new().set_debug_level(1).set_mutable_globals(["state"]);
        self.lua
            .load(source)
            .set_name(format!("={name}"))
            // Bytecode is not verified: whoever could load it could do anything.
            .set_mode(ChunkMode::Text)
            .set_compiler(compiler)
            .into_function()
    }
}

/// The line of the script that runs, whatever of ours it has called.
pub(crate) fn script_line(lua: &Lua) -> Option<usize> {
    const LEVELS_MAX: usize = 8;
    for level in 0..LEVELS_MAX {
        let line = lua.inspect_stack(level, |frame| {
            let is_ours = frame.source().short_src.is_some_and(|name| name == "tidegate");
            frame.current_line().filter(|_| !is_ours)
        })?;
        if line.is_some() {
            return line;
        }
    }
    None
}

/// The language's generator takes 31 bits.
fn fold(seed: u64) -> i32 {
    i32::try_from((seed ^ (seed >> 32)) & 0x7fff_ffff).unwrap_or_default()
}
