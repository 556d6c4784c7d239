//! Scripts that would do harm: each is stopped, told with its line, and leaves everything else as it was.

use std::{cell::Cell, rc::Rc};

use tidegate_control::{
    controller::{Controller, Standing},
    knobs::Value,
};
use tidegate_scripts::{Engine, Limits};

use crate::shop::Shop;

/// What the engine itself allocates to say that memory has run out.
const SLACK: usize = 64 * 1024;
const STEPS: &str = "ran over its 200000 steps";
const MEMORY: &str = "needs more than its 8388608 bytes of memory";

/// What a function that runs each second does, and what is said of it. The statements begin in line 2.
const HOSTILE: &[(&str, &str, &str)] = &[
    ("an endless loop", "while true do end", STEPS),
    ("an endless loop without a body", "repeat until false", STEPS),
    ("a long loop", "for i = 1, 1e12 do end", STEPS),
    ("endless calls", "local function f() return f() end f()", "law.lua:2"),
    ("deep recursion", "local function f(n) return 1 + f(n + 1) end f(0)", "stack overflow"),
    (
        "mutual recursion through metamethods",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k .. 'x'] end return t.a",
        "law.lua:2",
    ),
    (
        "an __index that is its own table's",
        "local t = {} setmetatable(t, { __index = t }) return t.a",
        "loop",
    ),
    ("an error each turn", "error('each time')", "law.lua:2: each time"),
    ("an error that is nil", "error(nil)", "nil"),
    (
        "an error with a hostile __tostring",
        "error(setmetatable({}, { __tostring = function() while true do end end }))",
        STEPS,
    ),
    (
        "an error whose __tostring errs",
        "error(setmetatable({}, { __tostring = function() error('again') end }))",
        "law.lua:1",
    ),
    (
        "an error whose __tostring gives no text",
        "error(setmetatable({}, { __tostring = function() return {} end }))",
        "law.lua:1",
    ),
    ("an error of many megabytes", "error(('x'):rep(4e6))", MEMORY),
    ("memory by a table", "local t = {} while true do t[#t + 1] = {} end", "law.lua"),
    ("memory by a table of one size", "table.create(1e8, 0)", "table overflow"),
    ("memory by string.rep", "local s = ('x'):rep(1e9)", MEMORY),
    ("memory by doubling", "local s = 'x' while true do s = s .. s end", MEMORY),
    ("memory by string.rep of string.rep", "local s = 'x' while true do s = s:rep(1000) end", "law.lua"),
    ("memory by concat", "local t = table.create(1000, ('x'):rep(1e5)) return table.concat(t)", MEMORY),
    (
        "memory by gsub",
        "local s = ('x'):rep(6e4) for i = 1, 9 do s = s:gsub('.', s:sub(1, 6e3)) end",
        "law.lua",
    ),
    (
        "memory by format",
        "local s = ('x'):rep(1e6) while true do s = string.format('%s%s', s, s) end",
        MEMORY,
    ),
    ("memory by closures", "local f while true do local g = f f = function() return g end end", "law.lua"),
    ("memory by coroutines", "local t = {} while true do t[#t + 1] = coroutine.create(print) end", MEMORY),
    (
        "memory that is kept",
        "state.kept = state.kept or {} while true do table.insert(state.kept, {}) end",
        "law.lua",
    ),
    ("backtracking", "string.find(('a'):rep(6e4), ('a*'):rep(100) .. 'b')", STEPS),
    ("lazy backtracking", "string.match(('a'):rep(6e4), ('.-'):rep(100) .. 'b')", STEPS),
    ("captures in captures", "string.gsub(('a'):rep(6e4), ('(a*)'):rep(30) .. 'b', '')", STEPS),
    ("a pattern too deep", "string.find(('a'):rep(1e4), ('a?'):rep(400) .. 'b')", "too complex"),
    (
        "a long plain search",
        "string.find(('a'):rep(3e6), ('a'):rep(1e6) .. 'b', 1, true)",
        "longer than 65536",
    ),
    ("a long split", "string.split(('a'):rep(3e6), ('a'):rep(1e6) .. 'b')", "longer than 65536"),
    ("a pattern that is none", "string.find('a', '%')", "in the function of this line: malformed pattern"),
    ("a long pattern", "string.match('a', ('a'):rep(2e3))", "longer than 1024"),
    ("a method of a long string", "local s = ('a'):rep(3e6) return s:gmatch('a')", "longer than 65536"),
    ("moving what is not there", "table.move({}, 1, 2^31 - 2, 1)", "more than 65536"),
    ("moving a range without end", "table.move({}, -1/0, 1/0, 1)", "more than 65536"),
    ("sorting too much", "table.sort(table.create(1e5, 0))", "more than 65536"),
    (
        "a comparison that errs",
        "table.sort({ 3, 1, 2 }, function(a, b) error('no order') end)",
        "law.lua:2: no order",
    ),
    ("unpacking too much", "return table.unpack({}, 1, 1e8)", "too many results"),
    (
        "too many arguments",
        "print(table.unpack(table.create(7900, 'x'), 1, 7900)) while true do end",
        "law.lua",
    ),
    ("catching the end by pcall", "while true do pcall(function() while true do end end) end", STEPS),
    (
        "catching the end by pcall in pcall",
        "local function f() pcall(f) pcall(f) while true do pcall(f) end end f()",
        STEPS,
    ),
    (
        "catching the end by xpcall",
        "local function g() while true do end end while true do xpcall(g, g) end",
        STEPS,
    ),
    (
        "catching the end in its handler",
        "local function g(e) xpcall(g, g) return e end xpcall(g, g) while true do xpcall(g, g) end",
        STEPS,
    ),
    (
        "catching the end in a coroutine",
        "while true do local c = coroutine.create(function() while true do end end) coroutine.resume(c) end",
        STEPS,
    ),
    (
        "going on in a coroutine after the end",
        "local c = coroutine.wrap(function() while true do pcall(function() while true do end end) coroutine.yield() end end) while true do pcall(c) end",
        STEPS,
    ),
    ("coroutines in coroutines", "local function f() return coroutine.wrap(f)() end f()", "law.lua"),
    ("yielding out of the turn", "coroutine.yield()", "law.lua"),
    (
        "endless yields",
        "local c = coroutine.wrap(function() while true do coroutine.yield() end end) while true do c() end",
        STEPS,
    ),
    ("closing itself", "coroutine.close(coroutine.running())", "law.lua"),
    ("an iterator without end", "for _ in function() return 1 end do end", STEPS),
    (
        "a __len that never ends",
        "return #setmetatable({}, { __len = function() while true do end end })",
        STEPS,
    ),
    (
        "a __eq that never ends",
        "local m = { __eq = function() while true do end end } return setmetatable({}, m) == setmetatable({}, m)",
        STEPS,
    ),
    (
        "a __concat that never ends",
        "return setmetatable({}, { __concat = function() while true do end end }) .. ''",
        STEPS,
    ),
    (
        "a __call of itself",
        "local m = {} m.__call = function(self) return self() end return setmetatable({}, m)()",
        "law.lua",
    ),
    (
        "a __newindex of itself",
        "local t = setmetatable({}, { __newindex = function(t, k, v) t[k] = v end }) t.a = 1",
        "law.lua",
    ),
    (
        "a __iter that never ends",
        "for _ in setmetatable({}, { __iter = function() return function() return 1 end end }) do end",
        STEPS,
    ),
    (
        "gsub with a function that never ends",
        "string.gsub('x', 'x', function() while true do end end)",
        STEPS,
    ),
    (
        "gsub with a table that never ends",
        "string.gsub('x', 'x', setmetatable({}, { __index = function() while true do end end }))",
        STEPS,
    ),
    ("asking for ever", "while true do mean('shop/home', 'goodput', '1min') end", STEPS),
    ("setting for ever", "while true do set('shop/home/queue.max', math.random(1000)) end", STEPS),
    ("logging for ever", "while true do log(('x'):rep(1e5)) end", "law.lua"),
    (
        "printing what never ends",
        "print(setmetatable({}, { __tostring = function() while true do end end }))",
        STEPS,
    ),
    (
        "an option table that never ends",
        "set('shop/home/queue.max', 1, setmetatable({}, { __index = function() while true do end end, __iter = function() end })) error('read')",
        "law.lua:2: read",
    ),
    ("a path of megabytes", "set(('x'):rep(4e6), 1)", "longer than 512 bytes"),
    ("a path that is not UTF-8", "set('\\xff', 1)", "not UTF-8"),
    ("a scope for each turn", "for i = 1, 1e4 do overloaded('shop/' .. i) end", "law.lua:2"),
    ("writing to the library", "string.find = nil", "readonly"),
    ("writing to the library by rawset", "rawset(string, 'find', print)", "readonly"),
    ("writing to the globals", "rawset(_G, 'set', print)", "readonly"),
    ("writing to the strings' metatable", "getmetatable('').__index = {}", "readonly"),
    ("changing the strings' metatable", "setmetatable('', {})", "law.lua:2"),
    ("taking the metatable of the globals", "getmetatable(_G).__index = nil", "law.lua:2"),
];

#[test]
fn each_is_stopped_and_told_with_its_line() {
    let mut faults = Vec::new();
    for (name, statements, what) in HOSTILE {
        let mut shop = Shop::new();
        let source = format!("every(\"1s\", function()\n{statements}\nend)");
        let mut neighbour = Engine::new(
            "neighbour.lua",
            r#"every("1s", function() state.n = (state.n or 0) + 1 set("shop/default/queue.max", state.n) end)"#,
            Limits::default(),
        )
        .expect("it compiles");
        let mut engine = match Engine::new("law.lua", &source, Limits::default()) {
            Ok(engine) => engine,
            Err(error) => {
                faults.push(format!("{name}: does not compile: {error}"));
                continue;
            }
        };
        for _ in 0..10 {
            shop.run(&mut neighbour, 1);
            if engine.next_tick().is_some_and(|due| due <= shop_now(&shop)) {
                engine.tick(&mut shop);
            }
        }
        let status = engine.status();
        let lines: Vec<&str> = shop.lines.iter().map(|(_, line)| line.as_str()).collect();
        match &status.standing {
            Standing::Running => faults.push(format!("{name}: still runs: {lines:?}")),
            Standing::Stopped { why } if !why.contains(what) || !why.starts_with("law.lua:") => {
                faults.push(format!("{name}: {why}"));
            }
            Standing::Stopped { .. } => {}
        }
        if status.turns != 4 || status.failures != 3 {
            faults.push(format!("{name}: {} turns, {} failures: {lines:?}", status.turns, status.failures));
        }
        if status.memory > Limits::default().memory + SLACK {
            faults.push(format!("{name}: {} bytes", status.memory));
        }
        if let Some(line) = lines.iter().find(|line| line.len() > 1100) {
            faults.push(format!("{name}: a line of {} bytes", line.len()));
        }
        if lines.len() > 3 * 34 + 1 {
            faults.push(format!("{name}: {} lines", lines.len()));
        }
        if shop.value("shop/default/queue.max") != Value::Count(9)
            || shop.value("shop/home/queue.max") != Value::Count(1000)
        {
            faults.push(format!("{name}: knobs of others have changed"));
        }
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), HOSTILE.len(), faults.join("\n"));
}

fn shop_now(shop: &Shop) -> tidegate_control::Timestamp {
    tidegate_control::controller::Host::now(shop)
}

#[test]
fn nothing_leads_out_of_the_sandbox() {
    for name in [
        "io",
        "os",
        "debug",
        "package",
        "require",
        "loadstring",
        "load",
        "loadfile",
        "dofile",
        "collectgarbage",
        "gcinfo",
        "getfenv",
        "setfenv",
        "newproxy",
        "buffer",
        "vector",
        "bridge",
        "module",
    ] {
        let mut shop = Shop::new();
        let source = format!("assert({name} == nil)\nassert(_G.{name} == nil)\nevery('1s', function() end)");
        let mut engine = Engine::new("law.lua", &source, Limits::default()).expect("it compiles");
        shop.run(&mut engine, 2);
        assert_eq!(engine.status().standing, Standing::Running, "{name}: {:?}", shop.lines);
    }
}

#[test]
fn what_one_script_does_to_its_globals_no_other_sees() {
    let mut shop = Shop::new();
    let mut vandal = Engine::new(
        "vandal.lua",
        "math = nil\nset = nil\nmax = function() return 1e9 end\nstate = 5\nevery('1s', function() end)",
        Limits::default(),
    )
    .expect("it compiles");
    let mut other = Engine::new(
        "other.lua",
        "every('1s', function() state.n = math.floor(1.5) set('shop/home/queue.max', state.n) end)",
        Limits::default(),
    )
    .expect("it compiles");
    shop.run(&mut vandal, 2);
    shop.run(&mut other, 2);
    assert_eq!(shop.value("shop/home/queue.max"), Value::Count(1), "{:?}", shop.lines);
}

#[test]
fn functions_kept_from_one_turn_work_in_the_next() {
    let mut shop = Shop::new();
    let mut engine = Engine::new(
        "law.lua",
        r#"
        local kept, count = set, 0
        local c = coroutine.wrap(function()
            while true do
                count += 1
                kept("shop/home/queue.max", count)
                coroutine.yield()
            end
        end)
        every("1s", function() c() end)
        "#,
        Limits::default(),
    )
    .expect("it compiles");
    shop.run(&mut engine, 4);
    assert_eq!(shop.value("shop/home/queue.max"), Value::Count(3), "{:?}", shop.lines);
}

#[test]
fn memory_given_up_is_free_again_in_the_next_turn() {
    let mut shop = Shop::new();
    let mut engine = Engine::new(
        "law.lua",
        r#"every("1s", function()
            state.turn = (state.turn or 0) + 1
            if state.turn % 2 == 1 then local t = {} for i = 1, 1e5 do t[i] = { i } end end
            local s = ("x"):rep(3e6)
            set("shop/home/queue.max", state.turn)
        end)"#,
        Limits::default(),
    )
    .expect("it compiles");
    shop.run(&mut engine, 12);
    assert_eq!(engine.status().standing, Standing::Running, "{:?}", shop.lines);
    assert!(engine.status().failures > 0, "the odd turns need more than there is");
    assert_eq!(shop.value("shop/home/queue.max"), Value::Count(10), "{:?}", shop.lines);
}

#[test]
fn the_guard_ends_what_steps_do_not() {
    let asked = Rc::new(Cell::new(0));
    let guard = {
        let asked = Rc::clone(&asked);
        move |turn| {
            asked.set(asked.get() + u64::from(turn == 2));
            asked.get() > 20
        }
    };
    let mut shop = Shop::new();
    let mut engine = Engine::guarded(
        "law.lua",
        "every('1s', function()\nwhile true do table.sort(table.create(6e4, 0)) end\nend)",
        Limits { strikes: 1, ..Limits::default() },
        guard,
    )
    .expect("it compiles");
    shop.run(&mut engine, 3);
    let Standing::Stopped { why } = engine.status().standing else { panic!("it runs") };
    assert_eq!(why, "law.lua:2: ran over its time");
    assert_eq!(asked.get(), 21);
    assert!(engine.status().steps < 200_000);
}
