//! The media of a plan, wherever they are used.

use std::path::{Path, PathBuf};

use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::Bytes;
use cxlab_files::input;
use cxlab_memory::Medium;
use cxlab_scenario::{MediumChoice, Note, Scenario};

use crate::problem::{Problem, Problems};

/// Media by their owners.
pub struct PlannedMedia {
    /// Media of Type 3 devices, by device group.
    pub devices: Vec<Box<dyn Medium>>,
    /// Media of the hosts' own memory, by host group.
    pub local: Vec<Option<Box<dyn Medium>>>,
    /// Media of the NUMA nodes, by host group.
    pub nodes: Vec<Vec<Box<dyn Medium>>>,
    /// Media of Type 2 devices, by accelerator group.
    pub accelerators: Vec<Option<Box<dyn Medium>>>,
}

/// A medium of this capacity. Its files are read relative to `folder`.
pub(crate) fn build(
    choice: &MediumChoice,
    capacity: Bytes,
    folder: &Path,
) -> Result<Box<dyn Medium>, ParamError> {
    let mut medium = choice.build()?;
    medium.load(folder)?;
    medium.check(capacity)?;
    Ok(medium)
}

/// A medium, its path in the scenario, and its capacity.
pub(crate) type MediumPlace<'a> = (String, &'a dyn Medium, Bytes);

impl PlannedMedia {
    pub(crate) fn all<'a>(
        &'a self,
        scenario: &'a Scenario,
    ) -> impl Iterator<Item = MediumPlace<'a>> {
        let devices = scenario.devices.iter().zip(&self.devices).enumerate();
        let devices = devices.map(|(at, (group, medium))| {
            let place = format!("devices[{at}].memory");
            (place, medium.as_ref(), group.capacity)
        });
        let local = scenario.hosts.iter().zip(&self.local).enumerate();
        let local = local.filter_map(|(at, (group, medium))| {
            let place = format!("hosts[{at}].local.memory");
            Some((place, medium.as_deref()?, group.local.as_ref()?.capacity))
        });
        let nodes = scenario.hosts.iter().zip(&self.nodes).enumerate();
        let nodes = nodes.flat_map(|(host, (group, media))| {
            let nodes = group.nodes.iter().zip(media).enumerate();
            nodes.map(move |(at, (node, medium))| {
                let place = format!("hosts[{host}].nodes[{at}].memory");
                (place, medium.as_ref(), node.capacity)
            })
        });
        let accelerators = scenario.accelerators.iter().zip(&self.accelerators);
        let accelerators = accelerators.enumerate();
        let accelerators = accelerators.filter_map(|(at, (group, medium))| {
            let place = format!("accelerators[{at}].memory.memory");
            Some((place, medium.as_deref()?, group.memory.as_ref()?.capacity))
        });
        devices.chain(local).chain(nodes).chain(accelerators)
    }

    /// Whether a medium runs code that the scenario names.
    pub(crate) fn run_code(&self, scenario: &Scenario) -> bool {
        self.all(scenario).any(|(_, medium, _)| medium.runs_code())
    }

    /// The notes of the media on their parameters.
    pub(crate) fn notes(&self, scenario: &Scenario) -> Vec<Note> {
        let groups = scenario.devices.iter();
        let contexts = groups.map(|group| Some(group.controller.contexts));
        // Devices come first; other owners have no bound.
        let outstanding = contexts.chain(std::iter::repeat(None));
        let media = self.all(scenario).zip(outstanding);
        let notes = media.flat_map(|((place, medium, _), outstanding)| {
            let notes = medium.notes(outstanding).into_iter();
            notes.map(move |note| Note::new(format!("{place}.{}", note.field), note.message))
        });
        notes.collect()
    }

    /// The files that media name.
    ///
    /// # Errors
    /// Files that do not exist or are not regular files.
    pub(crate) fn files(
        &self,
        scenario: &Scenario,
        folder: &Path,
    ) -> Result<Vec<PathBuf>, Vec<Problem>> {
        let (mut files, mut problems) = (Vec::new(), Problems::default());
        for (place, medium, _) in self.all(scenario) {
            for file in medium.files() {
                let path = folder.join(&file.path);
                let there = input::kind(&path);
                let wrong = match &there {
                    Ok(found) if found.is_file => None,
                    Ok(_) => Some("it is no regular file".to_owned()),
                    Err(error) => Some(format!("it cannot be read: {error}")),
                };
                match wrong {
                    None => files.push(path),
                    Some(why) => problems.refuse(
                        format!("{place}.{}", file.field),
                        format_args!("`{}`: {why}", path.display()),
                        "the name of a file, from the scenario's folder",
                    ),
                }
            }
        }
        problems.into_result(files)
    }
}
