//! The media of a plan, wherever they are used, and checks of media from shared libraries.

use std::path::{Path, PathBuf};

use cxlab_engine::units::Bytes;
use cxlab_memory::{FaultList, Medium, RunContext};
use cxlab_scenario::Scenario;

use super::{Plan, Problem};

/// Media by their owners.
pub(crate) struct Built<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) devices: &'a [Box<dyn Medium>],
    pub(crate) local: &'a [Option<Box<dyn Medium>>],
    pub(crate) nodes: &'a [Vec<Box<dyn Medium>>],
    pub(crate) accelerators: &'a [Option<Box<dyn Medium>>],
}

/// A medium, its path in the scenario, and its capacity.
type Place<'a> = (String, &'a dyn Medium, Bytes);

impl<'a> Built<'a> {
    fn all(&self) -> impl Iterator<Item = Place<'a>> {
        let devices = self.scenario.devices.iter().zip(self.devices).enumerate();
        let devices = devices.map(|(at, (group, medium))| {
            let place = format!("devices[{at}].memory");
            (place, medium.as_ref(), group.capacity)
        });
        let local = self.scenario.hosts.iter().zip(self.local).enumerate();
        let local = local.filter_map(|(at, (group, medium))| {
            let place = format!("hosts[{at}].local.memory");
            Some((place, medium.as_deref()?, group.local.as_ref()?.capacity))
        });
        let nodes = self.scenario.hosts.iter().zip(self.nodes).enumerate();
        let nodes = nodes.flat_map(|(host, (group, media))| {
            let nodes = group.nodes.iter().zip(media).enumerate();
            nodes.map(move |(at, (node, medium))| {
                let place = format!("hosts[{host}].nodes[{at}].memory");
                (place, medium.as_ref(), node.capacity)
            })
        });
        let accelerators = self.scenario.accelerators.iter().zip(self.accelerators);
        let accelerators = accelerators
            .enumerate()
            .filter_map(|(at, (group, medium))| {
                let place = format!("accelerators[{at}].memory.memory");
                Some((place, medium.as_deref()?, group.memory.as_ref()?.capacity))
            });
        devices.chain(local).chain(nodes).chain(accelerators)
    }

    /// The files that media name.
    ///
    /// # Errors
    /// Files that do not exist or are not regular files.
    pub(crate) fn files(&self, folder: &Path) -> Result<Vec<PathBuf>, Vec<Problem>> {
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for (place, medium, _) in self.all() {
            for file in medium.files() {
                let path = folder.join(&file.path);
                let there = std::fs::metadata(&path);
                let wrong = match &there {
                    Ok(found) if found.is_file() => None,
                    Ok(_) => Some("it is no regular file".to_owned()),
                    Err(error) => Some(format!("it cannot be read: {error}")),
                };
                match wrong {
                    None => files.push(path),
                    Some(why) => problems.push(Problem::new(
                        format!("{place}.{}", file.field),
                        format!(
                            "found `{}`: {why}; allowed: the name of a file, from the scenario's folder",
                            path.display()
                        ),
                    )),
                }
            }
        }
        if problems.is_empty() {
            Ok(files)
        } else {
            Err(problems)
        }
    }
}

impl Plan {
    fn built(&self) -> Built<'_> {
        Built {
            scenario: &self.scenario,
            devices: &self.media,
            local: &self.local_media,
            nodes: &self.node_media,
            accelerators: &self.accelerator_media,
        }
    }

    /// The context that all media of a run share.
    pub fn media_context(&self, faults: FaultList) -> RunContext {
        RunContext {
            folder: self.files.scenario_dir.clone(),
            faults,
        }
    }

    /// Checks that media from shared libraries can be built, by running their code.
    ///
    /// # Errors
    /// The media that fail.
    pub fn rehearse_media(&self) -> Result<(), Vec<Problem>> {
        let context = self.media_context(FaultList::default());
        let built = self.built();
        let foreign = built
            .all()
            .filter(|(_, medium, _)| !medium.files().is_empty());
        let problems: Vec<Problem> = foreign
            .filter_map(|(place, medium, capacity)| {
                let error = medium.rehearse(capacity, &context).err()?;
                Some(Problem::of_param(&place, error))
            })
            .collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        }
    }

    /// Turns a fault of a medium from a shared library into a problem of the scenario.
    ///
    /// # Errors
    /// The first fault.
    pub fn check_faults(&self, faults: &FaultList) -> Result<(), Vec<Problem>> {
        match faults.first() {
            Some((_, what)) => Err(vec![Problem::new(
                "",
                format!("{what} (docs/guide/plugins.md)"),
            )]),
            None => Ok(()),
        }
    }
}
