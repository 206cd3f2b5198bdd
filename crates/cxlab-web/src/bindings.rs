//! The functions of [`lab`](crate::lab) as JavaScript calls them. Errors are thrown as JSON texts.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use cxlab_engine::Monitor;
use cxlab_files::input;
use wasm_bindgen::prelude::*;

use crate::lab::{self, Failed, Settings};

/// Milliseconds between two calls of a page's function of progress.
const EVERY_MS: f64 = 100.0;
/// Most bytes of a file that a page provides.
const MOST_BYTES: usize = 100 << 20;

thread_local! {
    static PROGRESS: RefCell<Option<js_sys::Function>> = const { RefCell::new(None) };
    static EXPECTED: Cell<Option<u64>> = const { Cell::new(None) };
    static LAST_MS: Cell<f64> = const { Cell::new(0.0) };
}

impl From<Failed> for JsValue {
    fn from(failed: Failed) -> JsValue {
        JsValue::from_str(&failed.0)
    }
}

/// The version of cxlab.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// The JSON Schema of scenarios.
#[wasm_bindgen]
pub fn schema() -> String {
    lab::schema()
}

/// Makes a file known that scenarios may name.
///
/// # Errors
/// Files of more than 100 MB.
#[wasm_bindgen]
pub fn provide(path: &str, bytes: Vec<u8>) -> Result<(), JsValue> {
    if bytes.len() > MOST_BYTES {
        let found = bytes.len() >> 20;
        let why = format!("{path}: found {found} MiB; allowed in a browser: at most 100 MiB");
        return Err(JsValue::from_str(&why));
    }
    input::provide(PathBuf::from(path), bytes.into());
    Ok(())
}

/// Every mistake of a scenario, and notes where it has none.
#[wasm_bindgen]
pub fn check(text: &str) -> String {
    lab::check(text)
}

/// The system as SVG.
///
/// # Errors
/// The scenario's mistakes.
#[wasm_bindgen]
pub fn draw(text: &str, report: Option<String>) -> Result<String, JsValue> {
    Ok(lab::draw(text, report.as_deref())?)
}

/// Runs a scenario. `progress` is called about every tenth of a second; when it returns `false`, the run ends
/// and its report is marked partial.
///
/// # Errors
/// The scenario's mistakes, settings that are none, or an error of cxlab.
#[wasm_bindgen]
pub fn simulate(text: &str, settings: &str, progress: js_sys::Function) -> Result<String, JsValue> {
    let settings = Settings::read(settings).map_err(|why| JsValue::from_str(&why))?;
    PROGRESS.set(Some(progress));
    LAST_MS.set(js_sys::Date::now());
    let monitor = Monitor::watched(watch);
    let result = lab::simulate(text, &settings, &monitor, |all| EXPECTED.set(all));
    PROGRESS.set(None);
    Ok(result?)
}

/// Tells the page how far the run is, and asks whether it goes on.
fn watch(monitor: &Monitor) {
    let now = js_sys::Date::now();
    if now - LAST_MS.get() < EVERY_MS {
        return;
    }
    LAST_MS.set(now);
    PROGRESS.with_borrow(|progress| {
        let Some(progress) = progress else { return };
        let text = JsValue::from_str(&lab::progress(monitor, EXPECTED.get()));
        // A page whose function throws does not want the run either.
        let goes_on = progress.call1(&JsValue::NULL, &text);
        if goes_on.is_ok_and(|goes_on| goes_on == JsValue::FALSE) {
            monitor.interrupt();
        }
    });
}
