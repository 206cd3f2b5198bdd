//! Commands of the fabric manager with their responses, as reports show them.

use cxlab_engine::units::Picos;

/// A command of the fabric manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedCommand {
    /// Name of the command in the specification.
    pub name: &'static str,
    /// Opcode in the FM API (CXL 3.1, section 7.6.7).
    pub opcode: u16,
    /// The objects that the command is about.
    pub of: String,
    /// When the command is issued, after the workloads begin.
    pub issued: Picos,
    /// When the command has taken effect, after the workloads begin.
    pub done: Picos,
    /// The response that the fabric manager receives.
    pub response: Response,
}

/// The response to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// The command was carried out.
    Success,
    /// The policy grants nothing.
    ResourcesExhausted,
    /// No response, because the device or switch with this name is gone.
    None(String),
}

impl Response {
    /// The response in words, for reports.
    pub fn describe(&self) -> String {
        match self {
            Response::Success => "success".to_owned(),
            Response::ResourcesExhausted => "resources exhausted".to_owned(),
            Response::None(device) => format!("none, {device} is gone"),
        }
    }
}
