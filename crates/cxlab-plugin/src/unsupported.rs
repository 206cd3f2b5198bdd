//! What stands for media of shared libraries on systems that are not Unix: an error. Its interface is that of
//! `process.rs`, `serve.rs` and `medium.rs`, which have the documentation.

#![allow(missing_docs, reason = "see above")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{Broken, Completion, Place, PluginError, ROOM, Request};

#[derive(Clone, Debug)]
pub struct Host {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

pub fn host(_: Host) {}

pub fn serve(_: &[OsString]) -> u8 {
    2
}

#[derive(Debug)]
pub enum Medium {}

impl Medium {
    pub fn create(_: &Path, _: (&str, u64, u64), _: Place) -> Result<Medium, PluginError> {
        let message = "media in shared libraries run on Linux and macOS only";
        Err(PluginError::Library(message.to_owned()))
    }

    pub fn granule(&self) -> u32 {
        match *self {}
    }

    pub fn can_accept(&self, _: u64, _: bool) -> Result<bool, Broken> {
        match *self {}
    }

    pub fn enqueue(&self, _: u64, _: &Request) -> Result<(), Broken> {
        match *self {}
    }

    pub fn next_event(&self) -> Result<u64, Broken> {
        match *self {}
    }

    pub fn advance(&self, _: u64, _: &mut [Completion; ROOM]) -> Result<usize, Broken> {
        match *self {}
    }

    pub fn begin_measurement(&self, _: u64) -> Result<(), Broken> {
        match *self {}
    }

    pub fn statistic(&self, _: usize) -> Result<Option<(String, f64)>, Broken> {
        match *self {}
    }
}
