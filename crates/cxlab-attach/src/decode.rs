//! Decodes an x86-64 instruction before it executes: the addresses that it touches, and the
//! registers that it reads and writes.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory,
    OpAccess, Register,
};

use crate::model::{REGISTERS, Step, Touch};
use crate::sys::Registers;

/// Most bytes of an x86-64 instruction.
pub(crate) const LONGEST: usize = 15;
/// Most bytes that one operand counts as touching. A saved vector state is larger, and rare.
const MOST_BYTES: u64 = 4096;

/// Decodes instructions of one thread.
pub(crate) struct Analyst {
    factory: InstructionInfoFactory,
    instruction: Instruction,
    uses: RegisterUses,
}

/// Registers that an instruction reads and writes, by number.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RegisterUses {
    /// Registers that form its addresses.
    pub addresses: Vec<u8>,
    /// Registers that it reads, those of addresses included.
    pub reads: Vec<u8>,
    /// Registers that it writes.
    pub writes: Vec<u8>,
}

/// Registers that the 64-bit instruction at an address uses. Empty for an invalid instruction.
pub fn uses(address: u64, code: &[u8]) -> RegisterUses {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let mut uses = RegisterUses::default();
    if !instruction.is_invalid() {
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&instruction);
        registers_of(info, &mut uses);
    }
    uses
}

/// Replaces `uses` by the registers that an instruction reads and writes.
fn registers_of(info: &InstructionInfo, uses: &mut RegisterUses) {
    uses.addresses.clear();
    uses.reads.clear();
    uses.writes.clear();
    let number = |register: Register| u8::try_from(register.full_register() as usize).ok();
    for used in info.used_registers() {
        let Some(number) = number(used.register()) else {
            continue;
        };
        debug_assert!(usize::from(number) < REGISTERS);
        let (reads, writes) = accesses(used.access());
        if reads {
            uses.reads.push(number);
        }
        if writes {
            uses.writes.push(number);
        }
    }
    for used in info.used_memory() {
        for register in [used.base(), used.index()] {
            if register != Register::None {
                uses.addresses.extend(number(register));
            }
        }
    }
}

/// Whether an instruction may be single-stepped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SingleStep {
    /// The instruction can be stepped over.
    Plain,
    /// The instruction enters the kernel or is unknown. The window ends before it.
    Stop,
}

impl Analyst {
    pub(crate) fn new() -> Analyst {
        Analyst {
            factory: InstructionInfoFactory::new(),
            instruction: Instruction::default(),
            uses: RegisterUses::default(),
        }
    }

    /// Analyses the instruction at the instruction pointer, whose bytes are `code`, into `step`.
    pub(crate) fn decode(
        &mut self,
        registers: &Registers,
        code: &[u8],
        step: &mut Step,
    ) -> SingleStep {
        step.code = registers.rip;
        step.touches.clear();
        step.addresses.clear();
        step.reads.clear();
        step.writes.clear();
        let mut decoder = Decoder::with_ip(64, code, registers.rip, DecoderOptions::NONE);
        decoder.decode_out(&mut self.instruction);
        let flow = self.instruction.flow_control();
        if self.instruction.is_invalid()
            || matches!(flow, FlowControl::Interrupt | FlowControl::Exception)
            || self.enters_kernel()
            || self.has_flags_in_memory()
        {
            return SingleStep::Stop;
        }
        let info = self.factory.info(&self.instruction);
        registers_of(info, &mut self.uses);
        std::mem::swap(&mut step.addresses, &mut self.uses.addresses);
        std::mem::swap(&mut step.reads, &mut self.uses.reads);
        std::mem::swap(&mut step.writes, &mut self.uses.writes);
        for used in info.used_memory() {
            let (reads, writes) = accesses(used.access());
            if !reads && !writes {
                continue;
            }
            let value = |register, _, _| Some(value_of(registers, register));
            let Some(address) = used.virtual_address(0, value) else {
                continue;
            };
            let bytes = (used.memory_size().size() as u64).clamp(1, MOST_BYTES);
            let write = writes && !reads;
            step.touches.push(Touch { address, write });
            for line in address / 64 + 1..=address.saturating_add(bytes - 1) / 64 {
                let address = line * 64;
                step.touches.push(Touch { address, write });
            }
        }
        SingleStep::Plain
    }

    fn enters_kernel(&self) -> bool {
        use iced_x86::Mnemonic;
        matches!(
            self.instruction.mnemonic(),
            Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int | Mnemonic::Int3
        )
    }

    /// Whether the instruction stores or loads all flags, one of which is the trap flag. The trap flag is set while a
    /// thread is single-stepped, and a program that saved and restored it would trap after the window.
    fn has_flags_in_memory(&self) -> bool {
        use iced_x86::Mnemonic;
        matches!(
            self.instruction.mnemonic(),
            Mnemonic::Pushf
                | Mnemonic::Pushfd
                | Mnemonic::Pushfq
                | Mnemonic::Popf
                | Mnemonic::Popfd
                | Mnemonic::Popfq
                | Mnemonic::Iret
                | Mnemonic::Iretd
                | Mnemonic::Iretq
        )
    }
}

/// Whether an access reads and whether it writes. Conditional accesses count as happening.
fn accesses(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

/// Value of a register that an address uses. Registers that no address can use are 0.
fn value_of(registers: &Registers, register: Register) -> u64 {
    let whole = match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::RIP => registers.rip,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        _ => 0,
    };
    match register.size() {
        4 if register.is_gpr32() => whole & 0xffff_ffff,
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> Registers {
        let blank = crate::sys::registers_blank();
        Registers {
            rip: 0x1000,
            rax: 0x7000_0040,
            rcx: 3,
            rsp: 0x9000_0000,
            ..blank
        }
    }

    fn look(code: &[u8]) -> (SingleStep, Step) {
        let mut step = Step::default();
        let next = Analyst::new().decode(&registers(), code, &mut step);
        (next, step)
    }

    fn touches(step: &Step) -> Vec<(u64, bool)> {
        let touches = step.touches.iter();
        touches.map(|touch| (touch.address, touch.write)).collect()
    }

    #[test]
    fn a_chased_pointer_reads_and_writes_its_register() {
        // mov rax, [rax]
        let (next, step) = look(&[0x48, 0x8b, 0x00]);
        assert_eq!(next, SingleStep::Plain);
        assert_eq!(touches(&step), [(0x7000_0040, false)]);
        assert_eq!(step.reads, step.writes);
    }

    #[test]
    fn a_sum_needs_what_it_adds_to_and_its_address_does_not() {
        // add rdi, [r14+rax*8]
        let code = [0x49, 0x03, 0x3c, 0xc6];
        let (_, step) = look(&code);
        let number = |register: Register| register as usize as u8;
        assert_eq!(
            step.addresses,
            [number(Register::R14), number(Register::RAX)]
        );
        assert!(step.reads.contains(&number(Register::RDI)));
        assert_eq!(step.writes, [number(Register::RDI)]);
        let own = uses(0x1000, &code);
        assert_eq!((own.reads, own.addresses), (step.reads, step.addresses));
        // `xor edx, edx` reads nothing.
        assert!(look(&[0x31, 0xd2]).1.reads.is_empty());
    }

    #[test]
    fn an_indexed_store_and_one_over_two_lines() {
        // mov [rax+rcx*8], edx
        let (_, step) = look(&[0x89, 0x14, 0xc8]);
        assert_eq!(touches(&step), [(0x7000_0058, true)]);
        // movups xmm0, [rax+0x3c]
        let (_, step) = look(&[0x0f, 0x10, 0x40, 0x3c]);
        let lines = touches(&step).into_iter().map(|(address, _)| address / 64);
        assert!(
            lines.eq([0x7000_0040 / 64, 0x7000_0040 / 64 + 1]),
            "{step:?}"
        );
    }

    #[test]
    fn a_push_writes_below_the_stack_and_an_address_alone_touches_nothing() {
        // push rax
        let (_, step) = look(&[0x50]);
        assert_eq!(touches(&step)[0], (0x8fff_fff8, true));
        // lea rax, [rax+8]
        assert!(look(&[0x48, 0x8d, 0x40, 0x08]).1.touches.is_empty());
    }

    #[test]
    fn an_access_at_the_end_of_the_address_space_does_not_overflow() {
        // mov rax, [rcx], whose last bytes would have no address
        let registers = Registers {
            rcx: u64::MAX - 3,
            ..registers()
        };
        let mut step = Step::default();
        let next = Analyst::new().decode(&registers, &[0x48, 0x8b, 0x01], &mut step);
        assert_eq!((next, step.touches.len()), (SingleStep::Plain, 1));
    }

    #[test]
    fn windows_end_before_the_kernel_and_what_is_not_known() {
        for code in [&[0x0f, 0x05][..], &[0xcc], &[0x06], &[]] {
            assert_eq!(look(code).0, SingleStep::Stop, "{code:x?}");
        }
    }

    #[test]
    fn windows_end_before_the_trap_flag_is_seen() {
        let pushf: [&[u8]; 2] = [&[0x9c], &[0x66, 0x9c]];
        let popf: [&[u8]; 2] = [&[0x9d], &[0x66, 0x9d]];
        let iret: [&[u8]; 3] = [&[0xcf], &[0x66, 0xcf], &[0x48, 0xcf]];
        for code in pushf.into_iter().chain(popf).chain(iret) {
            assert_eq!(look(code).0, SingleStep::Stop, "{code:x?}");
        }
        // lahf and sahf do not have it.
        assert_eq!(look(&[0x9f]).0, SingleStep::Plain);
        assert_eq!(look(&[0x9e]).0, SingleStep::Plain);
    }
}
