//! Resolves the names in events.

use super::Account;
use crate::Problem;
use crate::endpoints::unknown;

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
                true => Problem::new(
                    path,
                    format!(
                        "found `{region}` in a scenario without regions; allowed: with [[regions]]"
                    ),
                ),
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
            true => Err(Problem::new(
                format!("{path}.kind"),
                format!(
                    "found an event that gives or takes all of `{region}`, which is pooled; allowed: \
                     \"demand\""
                ),
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
            return Err(Problem::new(
                device_path,
                format!(
                    "found `{device}` in a scenario without regions; allowed: with [[regions]]"
                ),
            ));
        }
        let place = (
            self.host(&format!("{path}.host"), host)?,
            self.device(&device_path, device)?,
        );
        let mut members = self.members.iter();
        if members.any(|(hosts, devices)| hosts.contains(&place.0) && devices.contains(&place.1)) {
            return Ok(place);
        }
        Err(Problem::new(
            device_path,
            format!(
                "found `{device}`, of which no region gives `{host}` memory; allowed: devices of the \
                 host's regions"
            ),
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
            return Err(Problem::new(
                path,
                format!("found `{name}`; allowed: a Type 3 device, of which there is none"),
            ));
        }
        let found = all.iter().position(|one| one == name);
        found.ok_or_else(|| unknown(path.to_owned(), name, "a Type 3 device", all))
    }
}
