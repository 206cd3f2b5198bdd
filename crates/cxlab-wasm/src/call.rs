//! Calls: a function that runs from one access to simulated memory to the next.

use std::fmt;
use std::sync::Arc;

use wasmi::{Caller, Error, Func, Global, Linker, ResumableCall, Store, Val};

use crate::private::PrivateMemory;
use crate::program::{CYCLES, IMPORTS, Program, ValueType};
use crate::rewrite::{ATOMIC, Access, rmw};

/// Fuel between two returns of a call that accesses nothing, so that an endless loop takes simulated time
/// and its run can be stopped.
const FUEL: u64 = 1_000_000;

/// How an atomic operation computes the new value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Adds the operand.
    Add,
    /// Subtracts the operand.
    Sub,
    /// Ands the operand.
    And,
    /// Ors the operand.
    Or,
    /// Exclusive-ors the operand.
    Xor,
    /// Replaces by the operand.
    Exchange,
    /// Replaces by the operand if the old value equals `compare`.
    CompareExchange,
}

/// What a call needs before it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// The value of a number in simulated memory.
    Load {
        /// Address of its first byte.
        addr: u64,
        /// Its size in bytes: 1, 2, 4 or 8.
        size: u8,
        /// Whether it is an atomic load, which orders later accesses behind it.
        atomic: bool,
    },
    /// A number stored in simulated memory.
    Store {
        /// Address of its first byte.
        addr: u64,
        /// Its size in bytes: 1, 2, 4 or 8.
        size: u8,
        /// The number that is stored, in its low bytes.
        value: u64,
        /// Whether it is an atomic store, which comes after all earlier accesses.
        atomic: bool,
    },
    /// An atomic operation, which needs its old value.
    Atomic {
        /// Address of the number's first byte, a multiple of its size.
        addr: u64,
        /// Its size in bytes: 4 or 8.
        size: u8,
        /// How the new value is computed.
        op: AtomicOp,
        /// The operand, or the new value.
        operand: u64,
        /// The expected value of an [`AtomicOp::CompareExchange`].
        compare: u64,
    },
    /// Bytes copied; both ranges may be in simulated or in private memory.
    Copy {
        /// First address that is stored to.
        to: u64,
        /// First address that is loaded.
        from: u64,
        /// Number of bytes, at least 1.
        bytes: u64,
    },
    /// Bytes of simulated memory set to one value.
    Fill {
        /// Address of the first byte.
        to: u64,
        /// The value of each byte.
        value: u8,
        /// Number of bytes, at least 1.
        bytes: u64,
    },
    /// All earlier accesses of the call are complete.
    Fence,
    /// All work-items of the group have reached a barrier, and their accesses are complete.
    Barrier,
    /// Nothing but the time of the instructions.
    Time,
}

/// What a call does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// After so many cycles the call makes this request.
    Request(Request, u64),
    /// After so many cycles the function returned.
    Ended(u64),
}

/// A work-item: values of the functions `get_global_id` and so on, by dimension.
#[derive(Clone, Default, Debug)]
pub struct WorkItem {
    /// Number of dimensions, 1 to 3.
    pub dimensions: u32,
    /// Number in the NDRange, with the offset.
    pub global_id: [u64; 3],
    /// Number in the work-group.
    pub local_id: [u64; 3],
    /// Number of the work-group.
    pub group_id: [u64; 3],
    /// Work-items of the NDRange.
    pub global_size: [u64; 3],
    /// Work-items of a group.
    pub local_size: [u64; 3],
    /// Offset of the global numbers.
    pub global_offset: [u64; 3],
}

/// What the functions outside of the module know.
struct Outside {
    item: WorkItem,
    memory: PrivateMemory,
    /// The request that the call has paused for.
    request: Option<Request>,
}

/// The pause of a call, as an error of wasmi.
#[derive(Debug)]
struct Pause;

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pause")
    }
}

impl wasmi::errors::HostError for Pause {}

/// Where a call is.
enum State {
    New(Func, Vec<Val>),
    Paused(wasmi::ResumableCallHostTrap),
    OutOfFuel(wasmi::ResumableCallOutOfFuel),
    Ended,
}

/// A call of a function.
pub struct Call {
    store: Store<Outside>,
    cycles: Global,
    state: State,
    name: String,
    /// Bytes of the value of the pending request; `None` for a request without a value.
    value_bytes: Option<u8>,
}

impl Call {
    /// Prepares a call. `arguments` are the bits of each argument.
    ///
    /// # Errors
    /// The program has no such function, or the arguments do not fit.
    pub fn new(
        program: &Program,
        name: &str,
        arguments: &[u64],
        item: WorkItem,
    ) -> Result<Call, String> {
        let known = program.functions().iter().find(|one| one.name == name);
        let Some(function) = known else {
            return Err(format!("found no function `{name}`"));
        };
        if function.parameters.len() != arguments.len() || !function.is_void {
            return Err(format!(
                "found {} arguments for `{name}`; allowed: {}, and a function that returns nothing",
                arguments.len(),
                function.parameters.len()
            ));
        }
        let value = |(ty, bits): (&ValueType, &u64)| match ty {
            ValueType::I32 => Val::I32(*bits as i32),
            ValueType::I64 => Val::I64(*bits as i64),
            ValueType::F32 => Val::F32(wasmi::F32::from_bits(*bits as u32)),
            ValueType::F64 => Val::F64(wasmi::F64::from_bits(*bits)),
        };
        let arguments = function.parameters.iter().zip(arguments).map(value);
        let outside = Outside {
            item,
            memory: PrivateMemory::new(Arc::clone(&program.image)),
            request: None,
        };
        let engine = program.module.engine();
        let mut store = Store::new(engine, outside);
        let mut linker = Linker::new(engine);
        define(&mut linker).map_err(|error| error.to_string())?;
        let instance = linker
            .instantiate_and_start(&mut store, &program.module)
            .map_err(|error| error.to_string())?;
        let (Some(func), Some(cycles)) = (
            instance.get_func(&store, name),
            instance.get_global(&store, CYCLES),
        ) else {
            return Err(format!("found no function `{name}`"));
        };
        Ok(Call {
            store,
            cycles,
            state: State::New(func, arguments.collect()),
            name: name.to_owned(),
            value_bytes: None,
        })
    }

    /// Name of the function.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs to the next request. `value` answers the last one, where that has a value; its bits above the
    /// request's size are ignored.
    ///
    /// # Errors
    /// The program did what it cannot do; the message says what, and names the function.
    pub fn resume(&mut self, value: u64) -> Result<Step, String> {
        let fuel = self.store.set_fuel(FUEL);
        fuel.map_err(|error| error.to_string())?;
        let state = std::mem::replace(&mut self.state, State::Ended);
        let result = match state {
            State::New(func, arguments) => {
                func.call_resumable(&mut self.store, &arguments, &mut [])
            }
            State::Paused(paused) => {
                let bytes = self.value_bytes.unwrap_or(8).clamp(1, 8);
                let mask = u64::MAX >> (64 - 8 * u32::from(bytes));
                let value = [Val::I64((value & mask) as i64)];
                let values = &value[..usize::from(self.value_bytes.is_some())];
                paused.resume(&mut self.store, values, &mut [])
            }
            State::OutOfFuel(paused) => paused.resume(&mut self.store, &mut []),
            State::Ended => return Ok(Step::Ended(0)),
        };
        let call = result.map_err(|error| self.fault(&error))?;
        let cycles = self.take_cycles()?;
        match call {
            ResumableCall::Finished => Ok(Step::Ended(cycles)),
            ResumableCall::OutOfFuel(paused) => {
                self.state = State::OutOfFuel(paused);
                Ok(Step::Request(Request::Time, cycles))
            }
            ResumableCall::HostTrap(paused) => {
                let Some(request) = self.store.data_mut().request.take() else {
                    return Err(self.fault(paused.host_error()));
                };
                self.value_bytes = match request {
                    Request::Load { size, .. } | Request::Atomic { size, .. } => Some(size),
                    _ => None,
                };
                self.state = State::Paused(paused);
                Ok(Step::Request(request, cycles))
            }
        }
    }

    /// Whether an address is in private memory.
    pub fn is_private(&self, addr: u64) -> bool {
        self.store.data().memory.contains(addr)
    }

    /// Bytes of private memory.
    ///
    /// # Errors
    /// The range cannot be loaded.
    pub fn private(&mut self, addr: u64, bytes: u64) -> Result<&[u8], String> {
        self.store.data_mut().memory.read(addr, bytes)
    }

    /// Bytes of private memory, to be stored to.
    ///
    /// # Errors
    /// The range cannot be stored to.
    pub fn private_mut(&mut self, addr: u64, bytes: u64) -> Result<&mut [u8], String> {
        self.store.data_mut().memory.write(addr, bytes)
    }

    fn take_cycles(&mut self) -> Result<u64, String> {
        let cycles = self.cycles.get(&self.store).i64().unwrap_or(0) as u64;
        let reset = self.cycles.set(&mut self.store, Val::I64(0));
        reset.map_err(|error| error.to_string())?;
        Ok(cycles)
    }

    fn fault(&self, error: &Error) -> String {
        format!("`{}`: {error}", self.name)
    }
}

type From<'a> = Caller<'a, Outside>;

/// Defines the functions that a rewritten module imports.
fn define(linker: &mut Linker<Outside>) -> Result<(), wasmi::errors::LinkerError> {
    type Get = fn(&WorkItem) -> ([u64; 3], u64);
    let gets: [(&str, Get); 7] = [
        ("get_global_id", |item| (item.global_id, 0)),
        ("get_local_id", |item| (item.local_id, 0)),
        ("get_group_id", |item| (item.group_id, 0)),
        ("get_global_size", |item| (item.global_size, 1)),
        ("get_local_size", |item| (item.local_size, 1)),
        ("get_global_offset", |item| (item.global_offset, 0)),
        ("get_num_groups", |item| {
            let groups = |at: usize| item.global_size[at] / item.local_size[at].max(1);
            ([groups(0), groups(1), groups(2)], 1)
        }),
    ];
    for (name, get) in gets {
        let value = move |caller: From<'_>, dimension: u32| {
            let (values, other) = get(&caller.data().item);
            values.get(dimension as usize).copied().unwrap_or(other) as i64
        };
        linker.func_wrap(IMPORTS, name, value)?;
    }
    let dimensions = |caller: From<'_>| caller.data().item.dimensions;
    linker.func_wrap(IMPORTS, "get_work_dim", dimensions)?;
    let barrier = |mut caller: From<'_>, _: u32| caller.data_mut().pause::<()>(Request::Barrier);
    linker.func_wrap(IMPORTS, "barrier", barrier)?;
    define_accesses(linker)
}

fn define_accesses(linker: &mut Linker<Outside>) -> Result<(), wasmi::errors::LinkerError> {
    let load = |mut caller: From<'_>, addr: u64, offset: u64, what: i32| {
        caller.data_mut().load(addr.wrapping_add(offset), what)
    };
    linker.func_wrap(IMPORTS, Access::Load.name(), load)?;
    let store = |mut caller: From<'_>, addr: u64, value: u64, offset: u64, what: i32| {
        let outside = caller.data_mut();
        outside.store(addr.wrapping_add(offset), value, what)
    };
    linker.func_wrap(IMPORTS, Access::Store.name(), store)?;
    let rmw = |mut caller: From<'_>, addr: u64, operand: u64, offset: u64, what: i32| {
        let op = match what >> 8 {
            rmw::SUB => AtomicOp::Sub,
            rmw::AND => AtomicOp::And,
            rmw::OR => AtomicOp::Or,
            rmw::XOR => AtomicOp::Xor,
            rmw::EXCHANGE => AtomicOp::Exchange,
            _ => AtomicOp::Add,
        };
        let (size, outside) = ((what & 0xff) as u8, caller.data_mut());
        outside.atomic(addr.wrapping_add(offset), size, op, operand, 0)
    };
    linker.func_wrap(IMPORTS, Access::Rmw.name(), rmw)?;
    let exchange = AtomicOp::CompareExchange;
    let of_8 = move |mut caller: From<'_>, addr: u64, compare: u64, new: u64, offset: u64| {
        let outside = caller.data_mut();
        outside.atomic(addr.wrapping_add(offset), 8, exchange, new, compare)
    };
    linker.func_wrap(IMPORTS, Access::CompareExchange64.name(), of_8)?;
    let of_4 = move |mut caller: From<'_>, addr: u64, compare: u32, new: u32, offset, size: i32| {
        let (new, compare) = (u64::from(new), u64::from(compare));
        let (addr, outside) = (addr.wrapping_add(offset), caller.data_mut());
        outside.atomic(addr, size as u8, exchange, new, compare)
    };
    linker.func_wrap(IMPORTS, Access::CompareExchange32.name(), of_4)?;
    let copy = |mut caller: From<'_>, to: u64, from: u64, bytes: u64| match bytes {
        0 => Ok(()),
        _ => (caller.data_mut()).pause(Request::Copy { to, from, bytes }),
    };
    linker.func_wrap(IMPORTS, Access::Copy.name(), copy)?;
    let fill = |mut caller: From<'_>, to: u64, value: u32, bytes: u64| {
        caller.data_mut().fill(to, value as u8, bytes)
    };
    linker.func_wrap(IMPORTS, Access::Fill.name(), fill)?;
    let fence = |mut caller: From<'_>| caller.data_mut().pause::<()>(Request::Fence);
    linker.func_wrap(IMPORTS, Access::Fence.name(), fence)?;
    Ok(())
}

impl Outside {
    fn pause<T>(&mut self, request: Request) -> Result<T, Error> {
        self.request = Some(request);
        Err(Error::host(Pause))
    }

    fn load(&mut self, addr: u64, what: i32) -> Result<u64, Error> {
        let size = (what & 0xff) as u8;
        if !self.memory.contains(addr) {
            let atomic = what & ATOMIC != 0;
            return self.pause(Request::Load { addr, size, atomic });
        }
        let bytes = self.memory.read(addr, size.into()).map_err(Error::new)?;
        Ok(number(bytes))
    }

    fn store(&mut self, addr: u64, value: u64, what: i32) -> Result<(), Error> {
        let size = (what & 0xff) as u8;
        if !self.memory.contains(addr) {
            let atomic = what & ATOMIC != 0;
            return self.pause(Request::Store {
                addr,
                size,
                value,
                atomic,
            });
        }
        let bytes = self.memory.write(addr, size.into()).map_err(Error::new)?;
        bytes.copy_from_slice(&value.to_le_bytes()[..size.into()]);
        Ok(())
    }

    fn atomic(
        &mut self,
        addr: u64,
        size: u8,
        op: AtomicOp,
        operand: u64,
        compare: u64,
    ) -> Result<u64, Error> {
        if !addr.is_multiple_of(u64::from(size)) {
            return Err(Error::new(format!(
                "found an atomic operation on {size} B at {addr:#x}; allowed: multiples of {size}"
            )));
        }
        if self.memory.contains(addr) {
            return Err(Error::new(format!(
                "found an atomic operation on private memory at {addr:#x}; allowed: memory that a \
                 pointer leads to"
            )));
        }
        self.pause(Request::Atomic {
            addr,
            size,
            op,
            operand,
            compare,
        })
    }

    fn fill(&mut self, to: u64, value: u8, bytes: u64) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        if !self.memory.contains(to) {
            return self.pause(Request::Fill { to, value, bytes });
        }
        let filled = self.memory.write(to, bytes).map_err(Error::new)?;
        filled.fill(value);
        Ok(())
    }
}

/// A little-endian number of up to 8 B.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
