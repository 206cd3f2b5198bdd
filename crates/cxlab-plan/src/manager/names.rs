//! Resolves the names in events.

use super::account::Account;
use crate::problem::{Problem, unknown};

impl Account<'_> {
    /// Numbers of the region and of the host with these names.
    pub(crate) fn memory(
        &self,
        path: &str,
        region: &str,
        host: &str,
    ) -> Result<(usize, usize), Problem> {
        let mut regions = self.scenario.regions.iter();
        let Some(at) = regions.position(|one| one.name == region) else {
            let regions = self.scenario.regions.iter();
            let known: Vec<String> = regions.map(|region| region.name.clone()).collect();
            let path = format!("{path}.region");
            return Err(match known.is_empty() {
                true => without_regions(path, region),
                false => unknown(path, region, "a region", &known),
            });
        };
        let all = &self.named.names.requesters;
        let of_region = &self.members[at].0;
        match of_region.iter().find(|one| all[**one] == host) {
            Some(host) => Ok((at, *host)),
            None => {
                let known: Vec<String> = of_region.iter().map(|host| all[*host].clone()).collect();
                let what = format!("a host of region `{region}`");
                Err(unknown(format!("{path}.host"), host, &what, &known))
            }
        }
    }

    /// Numbers of a region that events add and release, and of the host.
    pub(crate) fn whole_memory(
        &self,
        path: &str,
        region: &str,
        host: &str,
    ) -> Result<(usize, usize), Problem> {
        let place = self.memory(path, region, host)?;
        match self.pools.contains_key(&place.0) {
            false => Ok(place),
            true => Err(Problem::refused(
                format!("{path}.kind"),
                format_args!("an event that gives or takes all of `{region}`, which is pooled"),
                "\"demand\"",
            )),
        }
    }

    /// Numbers of a host and of a device of which the host can have memory.
    pub(crate) fn binding(
        &self,
        path: &str,
        host: &str,
        device: &str,
    ) -> Result<(usize, usize), Problem> {
        let device_path = format!("{path}.device");
        if self.scenario.regions.is_empty() {
            return Err(without_regions(device_path, device));
        }
        let place = (
            self.host(&format!("{path}.host"), host)?,
            self.device(&device_path, device)?,
        );
        let mut members = self.members.iter();
        if members.any(|(hosts, devices)| hosts.contains(&place.0) && devices.contains(&place.1)) {
            return Ok(place);
        }
        Err(Problem::refused(
            device_path,
            format_args!("`{device}`, of which no region gives `{host}` memory"),
            "devices of the host's regions",
        ))
    }

    pub(crate) fn host(&self, path: &str, name: &str) -> Result<usize, Problem> {
        let all = &self.named.names.requesters;
        let found = all.iter().position(|one| one == name);
        found.ok_or_else(|| unknown(path.to_owned(), name, "a host", all))
    }

    pub(crate) fn device(&self, path: &str, name: &str) -> Result<usize, Problem> {
        let all = &self.named.names.devices[..self.named.first_accelerator];
        if all.is_empty() {
            let allowed = "a Type 3 device, of which there is none";
            return Err(Problem::refused(path, format_args!("`{name}`"), allowed));
        }
        let found = all.iter().position(|one| one == name);
        found.ok_or_else(|| unknown(path.to_owned(), name, "a Type 3 device", all))
    }
}

fn without_regions(path: String, name: &str) -> Problem {
    let found = format_args!("`{name}` in a scenario without regions");
    Problem::refused(path, found, "with [[regions]]")
}
