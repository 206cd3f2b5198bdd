//! Assignment of addresses to BARs and windows, and of packet sizes.

use cxlab_engine::units::Hpa;

use super::{Bus, EnumerateError, FoundFunction, Goal, Software, Work};
use crate::io::space::{command, offset, pcie, standard};

/// Windows of bridges begin and end at multiples of this number of bytes.
const WINDOW: u64 = 1 << 20;

/// A consumer of addresses on a bus.
#[derive(Clone, Copy)]
enum Item {
    /// A BAR, by the index of its function and its index there.
    Bar(usize, usize),
    /// The window of a bridge to everything below it, by the index of the bridge.
    Window(usize),
}

/// The component above a bus.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ComponentAbove {
    /// A host bridge, by its number.
    HostBridge(usize),
    /// A bridge, by its index among the functions.
    Bridge(usize),
}

impl ComponentAbove {
    fn of(found: &FoundFunction) -> ComponentAbove {
        match found.parent {
            Some(place) => ComponentAbove::Bridge(place),
            None => ComponentAbove::HostBridge(found.host_bridge),
        }
    }
}

/// The addresses that an item needs.
#[derive(Clone, Copy)]
struct AddressNeed {
    item: Item,
    bytes: u64,
    align: u64,
}

impl<B: Bus> Software<B> {
    /// Assigns an address to every BAR, opens the windows, sets the packet sizes and enables the functions.
    pub(super) async fn assign(&mut self, goal: &Goal) -> Result<(), EnumerateError> {
        let host_bridges = self.platform.host_bridges.len();
        let found = goal.mmio_bytes / host_bridges.max(1) as u64 / WINDOW * WINDOW;
        for host_bridge in 0..host_bridges {
            let base = goal.mmio_base.0 + host_bridge as u64 * found;
            let needed = self.lay_out(ComponentAbove::HostBridge(host_bridge), base);
            if needed > found {
                return Err(EnumerateError::Mmio { needed, found });
            }
            self.place_all(ComponentAbove::HostBridge(host_bridge), base)
                .await?;
        }
        self.packet_sizes(goal).await?;
        for place in 0..self.functions.len() {
            let bdf = self.functions[place].bdf;
            let enable = command::MEMORY | command::BUS_MASTER | command::NO_INTX;
            self.config_write(bdf, offset::COMMAND, 2, enable.into())
                .await?;
        }
        Ok(())
    }

    /// The needs on the bus below a component, largest alignment first.
    fn needs(&self, above: ComponentAbove) -> Vec<AddressNeed> {
        let mut needs = Vec::new();
        for (place, found) in self.functions.iter().enumerate() {
            if ComponentAbove::of(found) != above {
                continue;
            }
            for (number, bar) in found.bars.iter().enumerate() {
                needs.push(AddressNeed {
                    item: Item::Bar(place, number),
                    bytes: bar.bytes,
                    align: bar.bytes,
                });
            }
            if found.bridge {
                let below = self.needs(ComponentAbove::Bridge(place));
                let align = below.iter().map(|need| need.align).fold(WINDOW, u64::max);
                let bytes = self
                    .lay_out(ComponentAbove::Bridge(place), 0)
                    .next_multiple_of(WINDOW);
                if !below.is_empty() {
                    let item = Item::Window(place);
                    needs.push(AddressNeed { item, bytes, align });
                }
            }
        }
        needs.sort_by_key(|need| std::cmp::Reverse(need.align));
        needs
    }

    /// Number of bytes that the items of a bus need, if its addresses begin at `base`.
    fn lay_out(&self, above: ComponentAbove, base: u64) -> u64 {
        let needs = self.needs(above);
        let end = needs.iter().fold(base, |at, need| {
            at.next_multiple_of(need.align) + need.bytes
        });
        end - base
    }

    fn place_all(&mut self, above: ComponentAbove, base: u64) -> Work<'_> {
        Box::pin(async move {
            let mut at = base;
            for need in self.needs(above) {
                at = at.next_multiple_of(need.align);
                match need.item {
                    Item::Bar(place, number) => self.place_bar(place, number, at).await?,
                    Item::Window(place) => {
                        self.open_window(place, at, at + need.bytes - 1).await?;
                        self.place_all(ComponentAbove::Bridge(place), at).await?;
                    }
                }
                at += need.bytes;
            }
            Ok(())
        })
    }

    async fn place_bar(
        &mut self,
        place: usize,
        number: usize,
        base: u64,
    ) -> Result<(), EnumerateError> {
        let found = &mut self.functions[place];
        found.bars[number].base = Hpa(base);
        let bdf = found.bdf;
        let at = offset::BAR0 + 8 * u16::from(found.bars[number].number);
        self.config_write(bdf, at, 4, base & u64::from(u32::MAX))
            .await?;
        self.config_write(bdf, at + 4, 4, base >> 32).await
    }

    async fn open_window(
        &mut self,
        place: usize,
        base: u64,
        limit: u64,
    ) -> Result<(), EnumerateError> {
        let bdf = self.functions[place].bdf;
        let window = (base >> 16 & 0xfff0) | (limit & 0xfff0_0000);
        self.config_write(bdf, offset::PREFETCH_WINDOW, 4, window)
            .await?;
        self.config_write(bdf, offset::PREFETCH_BASE_HIGH, 4, base >> 32)
            .await?;
        self.config_write(bdf, offset::PREFETCH_LIMIT_HIGH, 4, limit >> 32)
            .await
    }

    /// Sets Max_Payload_Size of all functions to the largest that all support, and
    /// Max_Read_Request_Size as the goal says.
    async fn packet_sizes(&mut self, goal: &Goal) -> Result<(), EnumerateError> {
        let is_pcie = |capability: &&(u8, u16)| capability.0 == standard::PCIE;
        let place = |found: &FoundFunction| {
            let capability = found.capabilities.iter().find(is_pcie)?;
            Some((found.bdf, capability.1))
        };
        let places: Vec<_> = self.functions.iter().filter_map(place).collect();
        let mut payload = 5;
        for (bdf, at) in &places {
            let supported = self
                .config_read(*bdf, at + pcie::DEVICE_CAPABILITIES, 4)
                .await?
                & 0b111;
            payload = supported.min(payload);
        }
        let read = u64::from((goal.max_read_request.clamp(128, 4096) / 128).ilog2());
        for (bdf, at) in places {
            let register = at + pcie::DEVICE_CONTROL;
            let old = self.config_read(bdf, register, 2).await?;
            let new = old & !0x70e0 | payload << 5 | read << 12;
            self.config_write(bdf, register, 2, new).await?;
        }
        Ok(())
    }
}
