//! Scan of buses and capabilities, and sizing of BARs.

use cxlab_engine::units::Hpa;

use super::{Bar, Bus, EnumerateError, FoundFunction, Software, Work};
use crate::io::space::{BARS, DVSEC_VENDOR, EXTENDED, STANDARD, extended, offset, pcie, standard};
use crate::io::tree::Bdf;

/// Number of devices that a bus can have.
const DEVICES: u8 = 32;

/// Longest capability list that is followed: one capability per word of the space.
const LONGEST: usize = 1024;

impl<B: Bus> Software<B> {
    /// Scans the hierarchy below each host bridge.
    pub(super) async fn scan_all(&mut self) -> Result<(), EnumerateError> {
        for host_bridge in 0..self.platform.host_bridges.len() {
            let bus = self.platform.host_bridges[host_bridge].first_bus;
            self.last_bus = bus;
            self.scan(bus, (host_bridge, None), false).await?;
        }
        Ok(())
    }

    /// Scans a bus and everything below it. A link has one device alone. `above` is the number of
    /// the host bridge, and the index of the bridge above the bus.
    async fn scan(
        &mut self,
        bus: u8,
        above: (usize, Option<usize>),
        link: bool,
    ) -> Result<(), EnumerateError> {
        for device in 0..if link { 1 } else { DEVICES } {
            let function = 0;
            let bdf = Bdf {
                bus,
                device,
                function,
            };
            let identity = self.config_read(bdf, offset::IDENTITY, 4).await?;
            if identity as u16 == u16::MAX {
                continue;
            }
            let header = self.config_read(bdf, offset::HEADER_TYPE, 1).await?;
            let place = self.functions.len();
            self.functions.push(FoundFunction {
                bdf,
                bridge: header & 0x7f == 1,
                host_bridge: above.0,
                parent: above.1,
                ..FoundFunction::default()
            });
            self.standard_list(place).await?;
            self.extended_list(place).await?;
            if self.functions[place].bridge {
                self.bridge(place).await?;
            }
        }
        Ok(())
    }

    /// Numbers the bus below a bridge and scans it.
    fn bridge(&mut self, place: usize) -> Work<'_> {
        Box::pin(async move {
            let FoundFunction {
                bdf,
                port_type,
                host_bridge,
                ..
            } = self.functions[place];
            let last = self.platform.host_bridges[host_bridge].last_bus;
            if self.last_bus == last {
                return Err(EnumerateError::Buses);
            }
            let secondary = self.last_bus + 1;
            self.last_bus = secondary;
            let buses = |subordinate: u8| {
                u64::from(bdf.bus) | u64::from(secondary) << 8 | u64::from(subordinate) << 16
            };
            // During the scan, all buses that are not found yet are below this bridge.
            self.config_write(bdf, offset::BUSES, 4, buses(last))
                .await?;
            // Root ports (4) and downstream ports (6) have a link below them.
            let link = matches!(port_type, 4 | 6);
            self.scan(secondary, (host_bridge, Some(place)), link)
                .await?;
            self.config_write(bdf, offset::BUSES, 4, buses(self.last_bus))
                .await
        })
    }

    async fn standard_list(&mut self, place: usize) -> Result<(), EnumerateError> {
        let bdf = self.functions[place].bdf;
        let mut at = self.config_read(bdf, offset::CAPABILITIES, 1).await? as u16;
        for _ in 0..LONGEST {
            if !(STANDARD..EXTENDED).contains(&at) {
                break;
            }
            let header = self.config_read(bdf, at, 4).await?;
            let id = header as u8;
            self.functions[place].capabilities.push((id, at));
            if id == standard::PCIE {
                let link = self
                    .config_read(bdf, at + pcie::LINK_CAPABILITIES, 4)
                    .await?;
                let found = &mut self.functions[place];
                found.port_type = (header >> 20 & 0xf) as u8;
                found.port_number = (link >> 24) as u8;
            }
            at = (header >> 8 & 0xfc) as u16;
        }
        Ok(())
    }

    async fn extended_list(&mut self, place: usize) -> Result<(), EnumerateError> {
        let bdf = self.functions[place].bdf;
        let mut at = EXTENDED;
        for _ in 0..LONGEST {
            let header = self.config_read(bdf, at, 4).await?;
            let id = header as u16;
            if id == extended::DVSEC {
                let vendor = self.config_read(bdf, at + 4, 2).await?;
                let number = self.config_read(bdf, at + 8, 2).await?;
                if vendor as u16 == DVSEC_VENDOR {
                    self.functions[place].dvsecs.push((number as u16, at));
                }
            } else if id != 0 {
                self.functions[place].extended.push((id, at));
            }
            at = (header >> 20 & 0xffc) as u16;
            if at < EXTENDED {
                break;
            }
        }
        Ok(())
    }

    /// Determines the size of every BAR.
    pub(super) async fn size(&mut self) -> Result<(), EnumerateError> {
        for place in 0..self.functions.len() {
            let FoundFunction { bdf, bridge, .. } = self.functions[place];
            for number in 0..if bridge { 1 } else { BARS as u8 } {
                let at = offset::BAR0 + 8 * u16::from(number);
                let low = self.probe(bdf, at).await?;
                let high = self.probe(bdf, at + 4).await?;
                let mask = (high << 32 | low) & !0xf;
                if mask != 0 {
                    let bytes = (!mask).wrapping_add(1);
                    let base = Hpa(0);
                    self.functions[place].bars.push(Bar {
                        number,
                        bytes,
                        base,
                    });
                }
            }
        }
        Ok(())
    }

    /// The value that is read after all ones were written. The register is restored.
    async fn probe(&mut self, bdf: Bdf, at: u16) -> Result<u64, EnumerateError> {
        let old = self.config_read(bdf, at, 4).await?;
        self.config_write(bdf, at, 4, u32::MAX.into()).await?;
        let mask = self.config_read(bdf, at, 4).await?;
        self.config_write(bdf, at, 4, old).await?;
        Ok(mask)
    }
}
