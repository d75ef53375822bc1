//! A headless Chromium, driven over its pipe: one JSON message after the other, each ended by a zero byte.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use serde_json::{Value, json};

/// A browser with one page; both are gone when it is dropped.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// Everything that happened, in order.
    pub(crate) events: Vec<Value>,
    session: Option<String>,
    calls: u64,
    folder: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser; `None` where there is none.
    pub(crate) fn start() -> Option<Self> {
        let program = find("chromium")?;
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // The browser reads from descriptor 3 and writes to 4.
        command
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1",
                "sh",
            ])
            .arg(program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .env("HOME", folder.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if geteuid().is_root() {
            // Its sandbox is a change of user, which root cannot make safe.
            command.arg("--no-sandbox");
        }
        let mut child = command.spawn().expect("a shell");
        let input = child.stdin.take().expect("stdin is piped");
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (to, messages) = channel();
        std::thread::spawn(move || {
            for message in output.split(0) {
                let Ok(message) = message else { return };
                let message = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if to.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            input,
            messages,
            events: Vec::new(),
            session: None,
            calls: 0,
            folder,
        };
        browser.open_page();
        Some(browser)
    }

    /// A folder that goes with the browser.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn open_page(&mut self) {
        let target = self.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call("Target.attachToTarget", &attach);
        self.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
    }

    /// Opens HTML from a file, after forgetting what happened before.
    pub(crate) fn open(&mut self, html: &str) {
        let path = self.folder.path().join("report.html");
        std::fs::write(&path, html).unwrap();
        self.events.clear();
        let url = format!("file://{}", path.display());
        let opened = self.call("Page.navigate", &json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{opened}");
        self.wait_for("Page.loadEventFired");
    }

    /// Asks something of the page (or of the browser before there is one), and returns the answer.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input
            .write_all(message.to_string().as_bytes())
            .unwrap();
        self.input.write_all(&[0]).unwrap();
        loop {
            let answer = self.next();
            if answer["id"] == json!(self.calls) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Waits until something has happened, and returns it.
    pub(crate) fn wait_for(&mut self, method: &str) -> Value {
        loop {
            let known = self.events.iter().find(|event| event["method"] == method);
            if let Some(event) = known {
                return event["params"].clone();
            }
            self.next();
        }
    }

    /// The value of an expression in the page, promises waited for.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let result = self.call("Runtime.evaluate", &params);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }

    fn next(&mut self) -> Value {
        let message = self
            .messages
            .recv_timeout(PATIENCE)
            .expect("the browser answers");
        if !message["method"].is_null() {
            self.events.push(message.clone());
        }
        message
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        // It may have ended by itself.
        let ended = kill_process_group(group, Signal::KILL);
        debug_assert!(
            matches!(ended, Ok(()) | Err(rustix::io::Errno::SRCH)),
            "{ended:?}"
        );
        drop(self.child.wait());
    }
}

/// Where a program is, by PATH.
fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// No window, no network of its own, nothing kept.
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND",
];
/// A browser that says nothing for so long is dead; a busy machine is no reason.
const PATIENCE: Duration = Duration::from_mins(2);
