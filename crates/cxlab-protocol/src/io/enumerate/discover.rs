//! Discovery of the CXL features of functions: protocols, memory, component registers, decoders.

use cxlab_engine::units::Hpa;

use super::{Bus, EnumerateError, FoundFunction, Software};
use crate::io::component::{CACHE_MEM, HDM_CAPABILITY};
use crate::io::space::{device_dvsec, dvsec_id, locator};

/// Number of register blocks that a register locator of 0x24 bytes has room for.
const BLOCKS: u16 = 3;

/// Number of decoders from its register code (CXL 3.1, section 8.2.4.20.1): 1, 2, 4, and so on to 10.
fn decoder_count(capability: u32) -> u8 {
    match (capability & 0xf) as u8 {
        0 => 1,
        code => 2 * code,
    }
}

impl<B: Bus> Software<B> {
    /// Discovers the CXL features of all functions. Returns for each host bridge the address of its
    /// HDM decoder capability and its number of decoders.
    pub(super) async fn discover(&mut self) -> Result<Vec<Option<(Hpa, u8)>>, EnumerateError> {
        for place in 0..self.functions.len() {
            if let Some(at) = self.dvsec(place, dvsec_id::DEVICE) {
                self.device(place, at).await?;
            }
            if let Some(at) = self.dvsec(place, dvsec_id::LOCATOR)
                && let Some(component) = self.component(place, at).await?
            {
                let decoders = self.hdm(component).await?;
                self.functions[place].decoders = decoders;
            }
        }
        let mut found = Vec::new();
        for host_bridge in 0..self.platform.host_bridges.len() {
            let component = self.platform.host_bridges[host_bridge].component_base;
            found.push(self.hdm(component).await?);
        }
        Ok(found)
    }

    /// Offset of a function's DVSEC with this ID.
    pub(super) fn dvsec(&self, place: usize, id: u16) -> Option<u16> {
        let dvsecs = &self.functions[place].dvsecs;
        let found = dvsecs.iter().find(|(number, _)| *number == id)?;
        Some(found.1)
    }

    async fn device(&mut self, place: usize, at: u16) -> Result<(), EnumerateError> {
        let bdf = self.functions[place].bdf;
        let capability = self
            .config_read(bdf, at + device_dvsec::CAPABILITY, 2)
            .await? as u16;
        self.functions[place].protocols =
            capability & (device_dvsec::CACHE | device_dvsec::IO | device_dvsec::MEM);
        for range in 0..capability >> 4 & 0b11 {
            let range = at + device_dvsec::RANGE1 + 16 * range;
            let high = self.config_read(bdf, range, 4).await?;
            let low = self.config_read(bdf, range + 4, 4).await?;
            if low as u32 & device_dvsec::READY == device_dvsec::READY {
                let bytes = high << 32 | low & 0xf000_0000;
                self.functions[place].memory.0 += bytes;
            }
        }
        Ok(())
    }

    async fn component(&mut self, place: usize, at: u16) -> Result<Option<Hpa>, EnumerateError> {
        let FoundFunction { bdf, .. } = self.functions[place];
        for block in 0..BLOCKS {
            let at = at + locator::BLOCK1 + 8 * block;
            let low = self.config_read(bdf, at, 4).await?;
            if low as u32 >> 8 & 0xff != locator::COMPONENT {
                continue;
            }
            let high = self.config_read(bdf, at + 4, 4).await?;
            // BARs are pairs of registers: the register's number is twice the pair's.
            let number = (low & 0b111) as u8 / 2;
            let bars = &self.functions[place].bars;
            let bar = bars.iter().find(|bar| bar.number == number);
            let within = high << 32 | low & 0xffff_0000;
            return Ok(bar.map(|bar| Hpa(bar.base.0 + within)));
        }
        Ok(None)
    }

    /// Address of the HDM decoder capability in a block of component registers, and the number of decoders.
    async fn hdm(&mut self, component: Hpa) -> Result<Option<(Hpa, u8)>, EnumerateError> {
        let array = component.0 + CACHE_MEM;
        let header = self.mmio_read(Hpa(array)).await?;
        if header & 0xffff != 1 {
            return Ok(None);
        }
        for entry in 1..=u64::from(header >> 24) {
            let entry = self.mmio_read(Hpa(array + 4 * entry)).await?;
            if entry & 0xffff == HDM_CAPABILITY {
                let at = Hpa(array + u64::from(entry >> 20));
                let capability = self.mmio_read(at).await?;
                return Ok(Some((at, decoder_count(capability))));
            }
        }
        Ok(None)
    }

    /// The indices of all functions that are devices, in the order in which they were found.
    pub(super) fn devices(&self) -> Vec<usize> {
        let is_device = |place: &usize| !self.functions[*place].bridge;
        (0..self.functions.len()).filter(is_device).collect()
    }
}
