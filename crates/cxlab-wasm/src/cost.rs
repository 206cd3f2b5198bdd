//! Cycles of an instruction on a processing element.
//!
//! A processing element is a scalar, in-order processor of one instruction a cycle. Registers and
//! constants are operands of other instructions there, while WebAssembly has instructions for them;
//! these take no cycle. All numbers are *assumed*, in the range of small in-order cores.

use wasmparser::Operator;

/// Cycles of an integer multiplication (*assumed*).
pub const MULTIPLY: u64 = 3;
/// Cycles of an integer division or remainder (*assumed*).
pub const DIVIDE: u64 = 20;
/// Cycles of a floating-point addition, multiplication, comparison or conversion (*assumed*).
pub const FLOAT: u64 = 4;
/// Cycles of a floating-point division or square root (*assumed*).
pub const FLOAT_DIVIDE: u64 = 20;

/// Cycles of an instruction, without the time of its access to memory.
pub fn cycles(operator: &Operator<'_>) -> u64 {
    use Operator as Op;
    match operator {
        Op::LocalGet { .. }
        | Op::LocalSet { .. }
        | Op::LocalTee { .. }
        | Op::I32Const { .. }
        | Op::I64Const { .. }
        | Op::F32Const { .. }
        | Op::F64Const { .. }
        | Op::Block { .. }
        | Op::Loop { .. }
        | Op::Else
        | Op::End
        | Op::Drop
        | Op::Nop
        | Op::I32WrapI64
        | Op::I64ExtendI32U => 0,
        Op::I32Mul | Op::I64Mul => MULTIPLY,
        Op::I32DivS
        | Op::I32DivU
        | Op::I32RemS
        | Op::I32RemU
        | Op::I64DivS
        | Op::I64DivU
        | Op::I64RemS
        | Op::I64RemU => DIVIDE,
        Op::F32Div | Op::F64Div | Op::F32Sqrt | Op::F64Sqrt => FLOAT_DIVIDE,
        _ if is_float(operator) => FLOAT,
        _ => 1,
    }
}

/// Whether an instruction computes with floating-point numbers.
fn is_float(operator: &Operator<'_>) -> bool {
    use Operator as Op;
    matches!(
        operator,
        Op::F32Add
            | Op::F32Sub
            | Op::F32Mul
            | Op::F32Min
            | Op::F32Max
            | Op::F32Eq
            | Op::F32Ne
            | Op::F32Lt
            | Op::F32Gt
            | Op::F32Le
            | Op::F32Ge
            | Op::F32Ceil
            | Op::F32Floor
            | Op::F32Trunc
            | Op::F32Nearest
            | Op::F64Add
            | Op::F64Sub
            | Op::F64Mul
            | Op::F64Min
            | Op::F64Max
            | Op::F64Eq
            | Op::F64Ne
            | Op::F64Lt
            | Op::F64Gt
            | Op::F64Le
            | Op::F64Ge
            | Op::F64Ceil
            | Op::F64Floor
            | Op::F64Trunc
            | Op::F64Nearest
            | Op::F32DemoteF64
            | Op::F64PromoteF32
            | Op::F32ConvertI32S
            | Op::F32ConvertI32U
            | Op::F32ConvertI64S
            | Op::F32ConvertI64U
            | Op::F64ConvertI32S
            | Op::F64ConvertI32U
            | Op::F64ConvertI64S
            | Op::F64ConvertI64U
            | Op::I32TruncF32S
            | Op::I32TruncF32U
            | Op::I32TruncF64S
            | Op::I32TruncF64U
            | Op::I64TruncF32S
            | Op::I64TruncF32U
            | Op::I64TruncF64S
            | Op::I64TruncF64U
            | Op::I32TruncSatF32S
            | Op::I32TruncSatF32U
            | Op::I32TruncSatF64S
            | Op::I32TruncSatF64U
            | Op::I64TruncSatF32S
            | Op::I64TruncSatF32U
            | Op::I64TruncSatF64S
            | Op::I64TruncSatF64U
    )
}
