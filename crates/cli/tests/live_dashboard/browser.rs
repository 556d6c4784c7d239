//! Headless Chromium driven over its DevTools protocol: real keys and clicks, pictures, and everything it says.

#![allow(dead_code, reason = "each test program uses its part")]

use std::{
    collections::VecDeque,
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value as Json, json};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::support::unbroken::Unbroken;

/// A browser that outlives this is ended, whatever the test does.
const SECONDS_MAX: &str = "300";
/// How long anything in the page may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(45);

/// What of its events is kept until somebody asks for it; a page that is fed every second says a lot.
const KEPT: [&str; 6] = [
    "Runtime.exceptionThrown",
    "Runtime.consoleAPICalled",
    "Log.entryAdded",
    "Network.requestWillBeSent",
    MOVED[0],
    MOVED[1],
];
/// A tab has gone to another page, or that page has loaded.
const MOVED: [&str; 2] = ["Page.frameNavigated", "Page.loadEventFired"];

/// A browser with a profile of its own; its calls are for the tab that is in front.
pub(crate) struct Browser {
    process: Child,
    socket: WebSocket<Unbroken<TcpStream>>,
    session: String,
    calls: u64,
    /// What it has told without being asked, for [`Browser::complaints`] and [`Browser::requests`].
    told: VecDeque<Json>,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().expect("a directory for the browser");
        let mut process = Command::new("timeout")
            .args([
                SECONDS_MAX,
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
            ])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stderr(Stdio::piped())
            // Its many processes are ended together.
            .process_group(0)
            .spawn()
            .expect("start chromium: run scripts/deps test");
        let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        let url = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("DevTools listening on ").map(str::to_owned))
            .expect("chromium says where it listens");
        // What else it says must not fill the pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let address = url.trim_start_matches("ws://").split('/').next().expect("an address");
        let stream = TcpStream::connect(address).expect("connect to chromium");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let (socket, _) = tungstenite::client(&url, Unbroken(stream)).expect("speak to chromium");
        let mut browser = Self {
            process,
            socket,
            session: String::new(),
            calls: 0,
            told: VecDeque::new(),
            _profile: profile,
        };
        browser.open_tab();
        browser
    }

    /// Opens another tab in front; gives the one that was there, for [`Browser::show_tab`].
    pub(crate) fn open_tab(&mut self) -> String {
        let before = std::mem::take(&mut self.session);
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            self.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        self.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility", "Performance"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        before
    }

    /// Brings a tab to the front.
    pub(crate) fn show_tab(&mut self, tab: String) -> String {
        let before = std::mem::replace(&mut self.session, tab);
        self.call("Page.bringToFront", json!({}));
        before
    }

    /// Opens an address and waits until the page has loaded.
    pub(crate) fn open(&mut self, url: &str) {
        // The answer may come while the page before still stands.
        self.value("window.isOld = true");
        let opened = self.call("Page.navigate", json!({ "url": url }));
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
        // An address that differs in its fragment only has no loader: the page stays. Works on pages that may not run
        // scripts, too.
        if opened["loaderId"].is_null() {
            self.until_page("true");
        } else {
            self.until_new_page(url == "about:blank");
        }
    }

    /// Loads the page again, as its button does.
    pub(crate) fn reload(&mut self) {
        self.value("window.isOld = true");
        self.call("Page.reload", json!({}));
        self.until_new_page(false);
    }

    /// Waits until the page that was old is gone and another has loaded. Before that one comes, its process may already
    /// answer, for an empty document.
    fn until_new_page(&mut self, is_blank: bool) {
        self.until_page(&format!("!window.isOld && (location.href === 'about:blank') === {is_blank}"));
    }

    /// Goes back in the tab's history.
    pub(crate) fn back(&mut self) {
        let history = self.call("Page.getNavigationHistory", json!({}));
        let at = history["currentIndex"].as_u64().and_then(|at| usize::try_from(at).ok()).expect("an index");
        let entry = &history["entries"][at.checked_sub(1).expect("a page before this one")];
        self.call("Page.navigateToHistoryEntry", json!({ "entryId": entry["id"] }));
        let there = format!("location.href === {}", entry["url"]);
        self.until_page(&there);
    }

    /// Whether pages may run scripts, from the next one on.
    pub(crate) fn run_scripts(&mut self, run: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": !run }));
    }

    /// Whether there is a network.
    pub(crate) fn connect(&mut self, is_connected: bool) {
        let network = json!({ "offline": !is_connected, "latency": 0,
                              "downloadThroughput": -1, "uploadThroughput": -1 });
        self.call("Network.emulateNetworkConditions", network);
    }

    /// The language its user reads, as pages are asked for.
    pub(crate) fn speak(&mut self, language: &str) {
        let headers = json!({ "headers": { "Accept-Language": language } });
        self.call("Network.setExtraHTTPHeaders", headers);
    }

    /// The value of a cookie for an address, those included that scripts do not see.
    pub(crate) fn cookie(&mut self, url: &str, name: &str) -> Option<String> {
        let cookies = self.call("Network.getCookies", json!({ "urls": [url] }));
        let cookies = cookies["cookies"].as_array().expect("cookies");
        let found = cookies.iter().find(|cookie| cookie["name"] == name)?;
        found["value"].as_str().map(str::to_owned)
    }

    /// The size of the window, in the pixels of style sheets.
    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// What the system asks pages for, such as `prefers-color-scheme` as `dark`.
    pub(crate) fn prefer(&mut self, features: &[(&str, &str)]) {
        let features: Vec<Json> =
            features.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// The value of an expression, once its promise is kept.
    pub(crate) fn value(&mut self, expression: &str) -> Json {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", asked);
        if let Some(fault) = answer.get("exceptionDetails").cloned() {
            panic!("{expression}: {fault}; the console says {:?}", self.complaints());
        }
        answer["result"]["value"].take()
    }

    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.value(expression);
        value.as_str().map_or_else(|| panic!("{expression} is no text: {value}"), str::to_owned)
    }

    /// Waits until an expression is true, looking whenever the document changes.
    pub(crate) fn until(&mut self, condition: &str) {
        let patience = PATIENCE.as_millis() - 5000;
        let script = format!(
            "new Promise((done, fail) => {{
                const holds = () => {{ try {{ return Boolean({condition}); }} catch {{ return false; }} }};
                if (holds()) return done();
                const end = (how) => {{ seen.disconnect(); clearTimeout(timer); how(); }};
                const seen = new MutationObserver(() => holds() && end(done));
                seen.observe(document, {{ subtree: true, childList: true, attributes: true, characterData: true }});
                // Neither a page that is loaded nor a focus that moves changes the document.
                for (const event of ['load', 'focusin', 'focusout']) addEventListener(event, () => holds() && end(done));
                const timer = setTimeout(
                    () => end(() => fail(new Error('this does not come: ' + document.body.innerText.slice(0, 3000)))), {patience});
            }})"
        );
        self.value(&script);
    }

    /// Waits until an expression is true on a page that has loaded, to whichever page the tab goes by itself
    /// meanwhile.
    pub(crate) fn until_page(&mut self, condition: &str) {
        let deadline = Instant::now() + 2 * PATIENCE;
        let asked = json!({ "expression": format!("document.readyState === 'complete' && Boolean({condition})"),
                            "returnByValue": true });
        loop {
            // An error: the page it was asked of is gone, and another one loads.
            let answer = self.ask("Runtime.evaluate", asked.clone()).unwrap_or_default();
            if answer["result"]["value"] == true {
                return;
            }
            assert!(Instant::now() < deadline, "no page comes on which this holds: {condition}");
            self.await_move();
        }
    }

    /// Clicks the middle of an element, as a mouse does.
    pub(crate) fn click(&mut self, selector: &str) {
        self.until(&format!("document.querySelector({})", json!(selector)));
        let place = self.value(&format!(
            "(() => {{ const one = document.querySelector({}); one.scrollIntoView({{ block: 'center', behavior: 'instant' }});
               const box = one.getBoundingClientRect();
               return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses a key: `Tab`, `Enter`, `Escape`, `ArrowLeft`.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "ArrowLeft" => (37, ""),
            _ => panic!("no code for the key {key}"),
        };
        let event = json!({ "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
        for kind in ["keyDown", "keyUp"] {
            let mut event = event.clone();
            event["type"] =
                if kind == "keyDown" && text.is_empty() { json!("rawKeyDown") } else { json!(kind) };
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Types a text where the focus is, in place of what stands there.
    pub(crate) fn write(&mut self, text: &str) {
        self.value("document.activeElement.select?.()");
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Saves a picture of the whole page, from its top to its end.
    pub(crate) fn picture(&mut self, file: &Path) {
        let size =
            self.value("[document.documentElement.clientWidth, document.documentElement.scrollHeight]");
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1 });
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let picture = self.call("Page.captureScreenshot", asked);
        let mut decoder = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(fs::File::create(file).expect("a file for the picture"))
            .spawn()
            .expect("start base64");
        let encoded = picture["data"].as_str().expect("a picture").as_bytes();
        decoder.stdin.take().expect("piped").write_all(encoded).expect("write the picture");
        assert!(decoder.wait().expect("wait for base64").success());
    }

    /// Names and roles of what can be operated, as assistive technology is told them.
    pub(crate) fn controls(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().expect("nodes");
        let operable = [
            "button",
            "link",
            "textbox",
            "searchbox",
            "combobox",
            "checkbox",
            "img",
            "meter",
            "table",
            "navigation",
        ];
        nodes
            .iter()
            .filter(|node| node["ignored"] != true)
            .map(|node| {
                let text = |part: &Json| part["value"].as_str().unwrap_or_default().to_owned();
                (text(&node["role"]), text(&node["name"]))
            })
            .filter(|(role, _)| operable.contains(&role.as_str()))
            .collect()
    }

    /// Errors and warnings of the console, and exceptions nobody caught, so far.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        self.value("0");
        self.told
            .iter()
            .filter_map(|event| match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(event["params"]["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" if event["params"]["type"] != "log" => {
                    Some(event["params"]["args"].to_string())
                }
                "Log.entryAdded" if event["params"]["entry"]["level"] != "verbose" => {
                    Some(event["params"]["entry"].to_string())
                }
                _ => None,
            })
            .collect()
    }

    /// Forgets what was complained about.
    pub(crate) fn forget_complaints(&mut self) {
        self.value("0");
        self.told.retain(|event| event["method"] == "Network.requestWillBeSent");
    }

    /// Addresses of every request so far.
    pub(crate) fn requests(&mut self) -> Vec<String> {
        self.value("0");
        self.told
            .iter()
            .filter(|event| event["method"] == "Network.requestWillBeSent")
            .filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned))
            .collect()
    }

    /// Seconds the page's thread has worked so far.
    pub(crate) fn busy(&mut self) -> f64 {
        let metrics = self.call("Performance.getMetrics", json!({}));
        let all = metrics["metrics"].as_array().expect("metrics");
        all.iter()
            .find(|one| one["name"] == "TaskDuration")
            .and_then(|one| one["value"].as_f64())
            .expect("a duration")
    }

    /// Waits until the tab goes to another page or has loaded it, if it has not since this was asked last.
    fn await_move(&mut self) {
        let session = self.session.clone();
        let is_move = |event: &Json| {
            event["sessionId"] == session
                && event["method"].as_str().is_some_and(|method| MOVED.contains(&method))
        };
        while !self.told.iter().any(is_move) {
            self.hear();
        }
        self.told.retain(|event| !is_move(event));
    }

    fn call(&mut self, method: &str, params: Json) -> Json {
        self.ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn ask(&mut self, method: &str, params: Json) -> Result<Json, Json> {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(message.to_string())).expect("tell chromium");
        loop {
            let Some(mut answer) = self.hear() else { continue };
            if answer["id"] == self.calls {
                return match answer.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => Ok(answer["result"].take()),
                };
            }
        }
    }

    /// The next answer; what it tells besides is noted.
    fn hear(&mut self) -> Option<Json> {
        let said = self.socket.read().unwrap_or_else(|error| panic!("chromium is silent: {error}"));
        let Message::Text(text) = said else { return None };
        let said: Json = serde_json::from_str(&text).expect("chromium speaks JSON");
        match said["method"].as_str() {
            None => Some(said),
            Some(method) => {
                if KEPT.contains(&method) {
                    self.told.push_back(said);
                }
                None
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.process.wait();
    }
}
