//! Rewriting: accesses to memory become calls, and cycles are counted.

use wasm_encoder::ValType::{self, I32, I64};
use wasm_encoder::reencode::{Error as ReencodeError, Reencode};
use wasm_encoder::{Function, Instruction, InstructionSink};
use wasmparser::{FunctionBody, MemArg, Operator};

use crate::cost::cycles;

/// Functions that the rewritten module imports for its accesses, by number after its own imports.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    /// `(address, offset, bytes) -> value`.
    Load,
    /// `(address, value, offset, bytes)`.
    Store,
    /// `(address, operand, offset, kind) -> old`.
    Rmw,
    /// `(address, expected, new, offset) -> old`, of 8 B.
    CompareExchange64,
    /// `(address, expected, new, offset, bytes) -> old`, of 4 B and less.
    CompareExchange32,
    /// `(to, from, bytes)`.
    Copy,
    /// `(to, value, bytes)`.
    Fill,
    /// `()`.
    Fence,
}

impl Access {
    /// By number: name, parameters and results.
    pub(crate) const ALL: [Signature; 8] = [
        ("access.load", &[I64, I64, I32], &[I64]),
        ("access.store", &[I64, I64, I64, I32], &[]),
        ("access.rmw", &[I64, I64, I64, I32], &[I64]),
        ("access.cmpxchg64", &[I64, I64, I64, I64], &[I64]),
        ("access.cmpxchg32", &[I64, I32, I32, I64, I32], &[I64]),
        ("access.copy", &[I64, I64, I64], &[]),
        ("access.fill", &[I64, I32, I64], &[]),
        ("access.fence", &[], &[]),
    ];

    pub(crate) fn name(self) -> &'static str {
        Access::ALL[self as usize].0
    }
}

type Signature = (&'static str, &'static [ValType], &'static [ValType]);

/// Kinds of [`Access::Rmw`], in bits 8 and up of its last argument. Bits 0 to 7 are the bytes.
pub(crate) mod rmw {
    pub(crate) const ADD: i32 = 0;
    pub(crate) const SUB: i32 = 1;
    pub(crate) const AND: i32 = 2;
    pub(crate) const OR: i32 = 3;
    pub(crate) const XOR: i32 = 4;
    pub(crate) const EXCHANGE: i32 = 5;
}

/// Bit of the bytes of a load or store that is atomic.
pub(crate) const ATOMIC: i32 = 0x100;

/// Where things are in the rewritten module.
pub(crate) struct Layout {
    /// Number of functions that the module imports itself.
    pub(crate) imports: u32,
    /// Global that counts cycles.
    pub(crate) cycles: u32,
}

impl Layout {
    fn access(&self, access: Access) -> u32 {
        self.imports + access as u32
    }
}

/// Numbers of functions, as they are after rewriting.
struct Renumber<'a>(&'a Layout);

impl Reencode for Renumber<'_> {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, index: u32) -> u32 {
        match index < self.0.imports {
            true => index,
            false => index + Access::ALL.len() as u32,
        }
    }
}

/// The number of a function after rewriting.
pub(crate) fn function_index(layout: &Layout, index: u32) -> u32 {
    Renumber(layout).function_index(index)
}

/// Rewrites a function.
///
/// # Errors
/// The function is malformed, or has an instruction that is not supported; the message names it.
pub(crate) fn function(layout: &Layout, body: &FunctionBody<'_>) -> Result<Function, String> {
    let mut locals = Vec::new();
    for local in body.get_locals_reader().map_err(text)? {
        let (count, ty) = local.map_err(text)?;
        locals.push((count, Renumber(layout).val_type(ty).map_err(reencoded)?));
    }
    let mut writer = Writer {
        layout,
        function: Function::new(locals),
        pending: 0,
    };
    for operator in body.get_operators_reader().map_err(text)? {
        writer.operator(operator.map_err(text)?)?;
    }
    Ok(writer.function)
}

fn text(error: wasmparser::BinaryReaderError) -> String {
    error.to_string()
}

fn reencoded(error: ReencodeError<std::convert::Infallible>) -> String {
    error.to_string()
}

struct Writer<'a> {
    layout: &'a Layout,
    function: Function,
    /// Cycles of the instructions since they were last counted.
    pending: u64,
}

/// The type of a number in WebAssembly's stack.
#[derive(Clone, Copy)]
enum Number {
    I32,
    I64,
    F32,
    F64,
}

impl Writer<'_> {
    fn sink(&mut self) -> InstructionSink<'_> {
        self.function.instructions()
    }

    /// Counts the pending cycles, before control leaves the straight line.
    fn count(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if pending > 0 {
            let cycles = self.layout.cycles;
            let mut sink = self.sink();
            sink.global_get(cycles).i64_const(pending as i64);
            sink.i64_add().global_set(cycles);
        }
    }

    fn operator(&mut self, operator: Operator<'_>) -> Result<(), String> {
        self.pending += cycles(&operator);
        if self.access(&operator)? {
            return Ok(());
        }
        if leaves(&operator) {
            self.count();
        }
        let instruction = Renumber(self.layout).instruction(operator);
        let instruction: Instruction<'_> = instruction.map_err(reencoded)?;
        self.function.instruction(&instruction);
        Ok(())
    }

    /// Writes an access to memory. Returns whether the instruction is one.
    fn access(&mut self, operator: &Operator<'_>) -> Result<bool, String> {
        use Number::{F32, F64, I32, I64};
        use Operator as Op;
        match operator {
            Op::I32Load { memarg } => self.load(memarg, 4, I32),
            Op::I64Load { memarg } => self.load(memarg, 8, I64),
            Op::F32Load { memarg } => self.load(memarg, 4, F32),
            Op::F64Load { memarg } => self.load(memarg, 8, F64),
            Op::I32Load8U { memarg } => self.load(memarg, 1, I32),
            Op::I32Load16U { memarg } => self.load(memarg, 2, I32),
            Op::I64Load8U { memarg } => self.load(memarg, 1, I64),
            Op::I64Load16U { memarg } => self.load(memarg, 2, I64),
            Op::I64Load32U { memarg } => self.load(memarg, 4, I64),
            Op::I32Load8S { memarg } => self.signed(memarg, 1, I32, &Instruction::I32Extend8S),
            Op::I32Load16S { memarg } => self.signed(memarg, 2, I32, &Instruction::I32Extend16S),
            Op::I64Load8S { memarg } => self.signed(memarg, 1, I64, &Instruction::I64Extend8S),
            Op::I64Load16S { memarg } => self.signed(memarg, 2, I64, &Instruction::I64Extend16S),
            Op::I64Load32S { memarg } => self.signed(memarg, 4, I64, &Instruction::I64Extend32S),
            Op::I32Store { memarg } => self.store(memarg, 4, I32),
            Op::I64Store { memarg } => self.store(memarg, 8, I64),
            Op::F32Store { memarg } => self.store(memarg, 4, F32),
            Op::F64Store { memarg } => self.store(memarg, 8, F64),
            Op::I32Store8 { memarg } => self.store(memarg, 1, I32),
            Op::I32Store16 { memarg } => self.store(memarg, 2, I32),
            Op::I64Store8 { memarg } => self.store(memarg, 1, I64),
            Op::I64Store16 { memarg } => self.store(memarg, 2, I64),
            Op::I64Store32 { memarg } => self.store(memarg, 4, I64),
            Op::MemoryCopy { .. } => self.call(Access::Copy),
            Op::MemoryFill { .. } => self.call(Access::Fill),
            Op::AtomicFence => self.call(Access::Fence),
            Op::MemorySize { .. } | Op::MemoryGrow { .. } => {
                return Err("found an instruction that asks for more memory; allowed: none".into());
            }
            Op::CallIndirect { .. } => {
                return Err(
                    "found a call through a function pointer; allowed: direct calls".into(),
                );
            }
            _ => return self.atomic(operator),
        }
        Ok(true)
    }

    /// Writes an atomic operation. Returns whether the instruction is one.
    fn atomic(&mut self, operator: &Operator<'_>) -> Result<bool, String> {
        use Number::{I32, I64};
        use Operator as Op;
        match operator {
            Op::I32AtomicLoad { memarg } => self.load(memarg, 4 | ATOMIC, I32),
            Op::I64AtomicLoad { memarg } => self.load(memarg, 8 | ATOMIC, I64),
            Op::I32AtomicLoad8U { memarg } => self.load(memarg, 1 | ATOMIC, I32),
            Op::I32AtomicLoad16U { memarg } => self.load(memarg, 2 | ATOMIC, I32),
            Op::I64AtomicLoad32U { memarg } => self.load(memarg, 4 | ATOMIC, I64),
            Op::I32AtomicStore { memarg } => self.store(memarg, 4 | ATOMIC, I32),
            Op::I64AtomicStore { memarg } => self.store(memarg, 8 | ATOMIC, I64),
            Op::I32AtomicStore8 { memarg } => self.store(memarg, 1 | ATOMIC, I32),
            Op::I32AtomicStore16 { memarg } => self.store(memarg, 2 | ATOMIC, I32),
            Op::I64AtomicStore32 { memarg } => self.store(memarg, 4 | ATOMIC, I64),
            Op::I32AtomicRmwAdd { memarg } => self.rmw(memarg, rmw::ADD, I32),
            Op::I64AtomicRmwAdd { memarg } => self.rmw(memarg, rmw::ADD, I64),
            Op::I32AtomicRmwSub { memarg } => self.rmw(memarg, rmw::SUB, I32),
            Op::I64AtomicRmwSub { memarg } => self.rmw(memarg, rmw::SUB, I64),
            Op::I32AtomicRmwAnd { memarg } => self.rmw(memarg, rmw::AND, I32),
            Op::I64AtomicRmwAnd { memarg } => self.rmw(memarg, rmw::AND, I64),
            Op::I32AtomicRmwOr { memarg } => self.rmw(memarg, rmw::OR, I32),
            Op::I64AtomicRmwOr { memarg } => self.rmw(memarg, rmw::OR, I64),
            Op::I32AtomicRmwXor { memarg } => self.rmw(memarg, rmw::XOR, I32),
            Op::I64AtomicRmwXor { memarg } => self.rmw(memarg, rmw::XOR, I64),
            Op::I32AtomicRmwXchg { memarg } => self.rmw(memarg, rmw::EXCHANGE, I32),
            Op::I64AtomicRmwXchg { memarg } => self.rmw(memarg, rmw::EXCHANGE, I64),
            Op::I64AtomicRmwCmpxchg { memarg } => {
                self.sink().i64_const(memarg.offset as i64);
                self.call(Access::CompareExchange64);
            }
            Op::I32AtomicRmwCmpxchg { memarg } => {
                self.sink().i64_const(memarg.offset as i64).i32_const(4);
                self.call(Access::CompareExchange32);
                self.sink().i32_wrap_i64();
            }
            _ if touches_memory(operator) => {
                return Err(format!(
                    "found the instruction {}; allowed: loads, stores and atomic operations of \
                     4 and 8 B, copies and fills",
                    name(operator)
                ));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn call(&mut self, access: Access) {
        self.count();
        let index = self.layout.access(access);
        self.sink().call(index);
    }

    fn load(&mut self, memarg: &MemArg, bytes: i32, number: Number) {
        self.sink().i64_const(memarg.offset as i64).i32_const(bytes);
        self.call(Access::Load);
        self.typed(number);
    }

    /// A load whose value `extend` makes one with a sign.
    fn signed(&mut self, memarg: &MemArg, bytes: i32, number: Number, extend: &Instruction<'_>) {
        self.load(memarg, bytes, number);
        self.function.instruction(extend);
    }

    fn store(&mut self, memarg: &MemArg, bytes: i32, number: Number) {
        self.bits_of(number);
        self.sink().i64_const(memarg.offset as i64).i32_const(bytes);
        self.call(Access::Store);
    }

    fn rmw(&mut self, memarg: &MemArg, kind: i32, number: Number) {
        let bytes = match number {
            Number::I32 | Number::F32 => 4,
            Number::I64 | Number::F64 => 8,
        };
        self.bits_of(number);
        let what = bytes | (kind << 8);
        self.sink().i64_const(memarg.offset as i64).i32_const(what);
        self.call(Access::Rmw);
        self.typed(number);
    }

    /// The number on the stack, from the bits of an `i64`.
    fn typed(&mut self, number: Number) {
        let mut sink = self.sink();
        match number {
            Number::I32 => sink.i32_wrap_i64(),
            Number::I64 => &mut sink,
            Number::F32 => sink.i32_wrap_i64().f32_reinterpret_i32(),
            Number::F64 => sink.f64_reinterpret_i64(),
        };
    }

    /// The bits of the number on the stack, as an `i64`.
    fn bits_of(&mut self, number: Number) {
        let mut sink = self.sink();
        match number {
            Number::I32 => sink.i64_extend_i32_u(),
            Number::I64 => &mut sink,
            Number::F32 => sink.i32_reinterpret_f32().i64_extend_i32_u(),
            Number::F64 => sink.i64_reinterpret_f64(),
        };
    }
}

/// Whether control may leave the straight line at an instruction, or enter it.
fn leaves(operator: &Operator<'_>) -> bool {
    use Operator as Op;
    matches!(
        operator,
        Op::Block { .. }
            | Op::Loop { .. }
            | Op::If { .. }
            | Op::Else
            | Op::End
            | Op::Br { .. }
            | Op::BrIf { .. }
            | Op::BrTable { .. }
            | Op::Return
            | Op::Call { .. }
            | Op::Unreachable
    )
}

/// The name of an instruction, as Rust's library has it.
fn name(operator: &Operator<'_>) -> String {
    let text = format!("{operator:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

/// Whether an instruction accesses memory in a way that is not supported.
fn touches_memory(operator: &Operator<'_>) -> bool {
    let segments = matches!(
        operator,
        Operator::MemoryInit { .. } | Operator::DataDrop { .. }
    );
    segments || name(operator).contains("Atomic")
}
