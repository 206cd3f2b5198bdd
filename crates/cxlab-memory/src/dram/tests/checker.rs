//! A checker of command streams, written from the rules of the standards and independent of the
//! scheduler. It has a table of least distances between pairs of commands, and the rules that pairs
//! cannot express (four activates, row states, data bus, command buses, refresh rate, write clock).

use crate::dram::params::ResolvedDram;
use crate::dram::standard::CommandBus;
use crate::dram::{Command, CommandKind as Kind, Timings};

/// The classes of commands in the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommandClass {
    Act,
    Pre,
    Rd,
    Wr,
    RefAll,
    RefPart,
}
use CommandClass::{Act, Pre, Rd, RefAll, RefPart, Wr};

/// The relation of two commands for which a rule holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RuleScope {
    Bank,
    Group,
    Rank,
    /// The same rank, but not the same stack ID.
    OtherStack,
    /// The same data bus, but not the same rank.
    OtherRank,
}

#[derive(Debug)]
struct TimingRule {
    before: CommandClass,
    after: CommandClass,
    scope: RuleScope,
    /// Least distance in clocks, as the standard counts.
    clocks: i64,
}

fn rules(t: &Timings) -> Vec<TimingRule> {
    let c = |value: u32| i64::from(value);
    let (bl, cl, cwl) = (c(t.burst), c(t.cl), c(t.cwl));
    let written = cwl + bl;
    let rule = |before, after, scope, clocks| TimingRule {
        before,
        after,
        scope,
        clocks,
    };
    use RuleScope::{Bank, Group, OtherRank, OtherStack, Rank};
    vec![
        rule(Act, Act, Bank, c(t.rc)),
        rule(Act, Rd, Bank, c(t.rcd)),
        rule(Act, Wr, Bank, c(t.rcd_wr)),
        rule(Act, Pre, Bank, c(t.ras)),
        rule(Pre, Act, Bank, c(t.rp)),
        rule(Rd, Pre, Bank, c(t.rtp)),
        rule(Wr, Pre, Bank, written + c(t.wr)),
        rule(Act, Act, Group, c(t.rrd_l)),
        rule(Act, Act, Rank, c(t.rrd_s)),
        rule(Rd, Rd, Group, c(t.ccd_l)),
        rule(Wr, Wr, Group, c(t.ccd_l_wr)),
        rule(Wr, Rd, Group, cwl + c(t.burst_group) + c(t.wtr_l)),
        rule(Rd, Rd, Rank, c(t.ccd_s)),
        rule(Wr, Wr, Rank, c(t.ccd_s_wr)),
        rule(Wr, Rd, Rank, written + c(t.wtr_s)),
        rule(Rd, Wr, Rank, cl + bl + c(t.rtw_gap) - cwl),
        rule(Rd, Rd, OtherRank, bl + c(t.rank_gap)),
        rule(Rd, Rd, OtherStack, c(t.ccd_r)),
        rule(Rd, Wr, Group, cl + bl + c(t.rtw_gap_l) - cwl),
        rule(Rd, Wr, OtherRank, cl + bl + c(t.rank_gap) - cwl),
        rule(Wr, Rd, OtherRank, cwl + bl + c(t.rank_gap) - cl),
        rule(Wr, Wr, OtherRank, bl),
        rule(Pre, Pre, Rank, c(t.ppd)),
        rule(Pre, RefAll, Rank, c(t.rp)),
        rule(Act, RefAll, Rank, c(t.rc)),
        rule(RefAll, Act, Rank, c(t.rfc)),
        rule(RefAll, RefAll, Rank, c(t.rfc)),
        rule(Pre, RefPart, Bank, c(t.rp)),
        rule(Act, RefPart, Bank, c(t.rc)),
        rule(Act, RefPart, Rank, c(t.rrd_s)),
        rule(RefPart, Act, Bank, c(t.rfc_pb)),
        rule(RefPart, RefPart, Bank, c(t.rfc_pb)),
        rule(RefPart, Act, Rank, c(t.pbr_act)),
        rule(RefPart, RefPart, Rank, c(t.pbr_pbr)),
    ]
}

fn classes(kind: Kind) -> Option<CommandClass> {
    Some(match kind {
        Kind::Activate => Act,
        Kind::Precharge | Kind::PrechargeAll | Kind::PrechargeSame => Pre,
        Kind::Read | Kind::ReadPrecharge => Rd,
        Kind::Write | Kind::WritePrecharge => Wr,
        Kind::RefreshAll | Kind::ManageAll => RefAll,
        Kind::RefreshBank | Kind::RefreshSame | Kind::ManageBank | Kind::ManageSame => RefPart,
        Kind::Cas | Kind::ActivateSecond => return None,
    })
}

const NEVER: i64 = i64::MIN / 2;

fn latest(ticks: impl Iterator<Item = i64>) -> i64 {
    ticks.max().unwrap_or(NEVER)
}

/// The least distance of a rule, in ticks between the first ticks of two commands.
fn distance(rule: &TimingRule, bus: &CommandBus) -> i64 {
    let ticks = |class: CommandClass| match class {
        Act => bus.act,
        Rd | Wr => bus.column,
        Pre | RefAll | RefPart => bus.row,
    };
    let longer = i64::from(ticks(rule.before)) - i64::from(ticks(rule.after));
    rule.clocks * i64::from(bus.ticks_per_clock) + i64::from(bus.from_last) * longer
}

#[derive(Clone, Copy)]
struct Bank {
    row: Option<u32>,
    opened: i64,
    last: [i64; 6],
    /// The tick at which an automatic precharge closes the row.
    closes: i64,
    /// Activates that refresh management counts.
    activates: u32,
}

/// Checks the commands of one channel, and returns all violations.
#[expect(clippy::too_many_lines, reason = "one case after the other")]
pub fn check(commands: &[Command], resolved: &ResolvedDram, bus: &CommandBus) -> Vec<String> {
    let (t, config) = (&resolved.timings, &resolved.config);
    let table = rules(t);
    let tick = i64::from(bus.ticks_per_clock);
    let (groups, per_group) = (config.groups, config.banks);
    let per_rank = groups * per_group;
    let per_bus = config.ranks / config.pseudo_channels;
    let mut banks = vec![
        Bank {
            row: None,
            opened: NEVER,
            last: [NEVER; 6],
            closes: NEVER,
            activates: 0,
        };
        config.ranks * per_rank
    ];
    let mut by_group = vec![[NEVER; 6]; config.ranks * groups];
    let mut by_rank = vec![[NEVER; 6]; config.ranks];
    let mut activates: Vec<Vec<i64>> = vec![Vec::new(); config.ranks];
    let mut refreshes: Vec<Vec<i64>> = vec![Vec::new(); config.ranks];
    let mut data: Vec<Option<(i64, i64, usize, bool)>> = vec![None; config.pseudo_channels];
    let mut buses = [NEVER; 2];
    let (mut cas, mut clock_until) = (NEVER, NEVER);
    let mut half: Option<(u32, u32, u32, i64)> = None;
    let mut wrong = Vec::new();
    for command in commands {
        let now = command.tick as i64;
        let mut fail = |what: String| wrong.push(format!("{what} at {now}: {command:?}"));
        let rank = command.rank as usize;
        let group = rank * groups + command.group as usize;
        let bank = group * per_group + command.bank as usize;
        if config.time(command.tick) != command.at.0 {
            fail("off the clock".to_owned());
        }

        // The command buses.
        let column = matches!(
            command.kind,
            Kind::Read | Kind::ReadPrecharge | Kind::Write | Kind::WritePrecharge | Kind::Cas
        );
        let wire = usize::from(column && bus.dual);
        if now < buses[wire] {
            fail("the command bus is busy".to_owned());
        }
        buses[wire] = now
            + i64::from(match command.kind {
                Kind::Activate | Kind::ActivateSecond => bus.act,
                Kind::Cas => bus.cas,
                _ if column => bus.column,
                _ => bus.row,
            });

        // The two halves of an activate.
        if bus.second_within > 0 {
            let place = (command.rank, command.group, command.bank);
            match (half, command.kind) {
                (Some(_), Kind::Activate) => fail("before the second half".to_owned()),
                (None, Kind::Activate) => half = Some((place.0, place.1, place.2, now)),
                (Some((rank, group, bank, first)), kind) => {
                    let same = (rank, group, bank) == place;
                    if now - first > i64::from(bus.second_within) {
                        fail("the second half is late".to_owned());
                        half = None;
                    } else if kind == Kind::ActivateSecond {
                        if !same {
                            fail("a second half of another bank".to_owned());
                        }
                        half = None;
                    } else if same && kind != Kind::Cas {
                        fail("to a bank whose activate is half".to_owned());
                    }
                }
                (None, Kind::ActivateSecond) => fail("half an activate".to_owned()),
                _ => {}
            }
        }

        let Some(class) = classes(command.kind) else {
            if command.kind == Kind::Cas {
                cas = now;
            }
            continue;
        };
        let whole = per_rank * rank..per_rank * (rank + 1);
        let affected: Vec<usize> = match command.kind {
            Kind::PrechargeAll | Kind::RefreshAll | Kind::ManageAll => whole.collect(),
            Kind::PrechargeSame | Kind::RefreshSame | Kind::ManageSame => whole
                .filter(|index| index % per_group == command.bank as usize)
                .collect(),
            _ => vec![bank],
        };

        // Distances of pairs.
        for rule in table.iter().filter(|rule| rule.after == class) {
            let least = distance(rule, bus);
            let before = rule.before as usize;
            let bus_of = |rank: usize| rank / per_bus;
            let last = match rule.scope {
                RuleScope::Bank => latest(affected.iter().map(|index| banks[*index].last[before])),
                RuleScope::Group => by_group[group][before],
                RuleScope::Rank => by_rank[rank][before],
                RuleScope::OtherStack => {
                    let length = groups / config.stacks;
                    let other =
                        (0..groups).filter(|one| one / length != command.group as usize / length);
                    latest(other.map(|one| by_group[rank * groups + one][before]))
                }
                RuleScope::OtherRank => {
                    let same_bus = |other: &usize| *other != rank && bus_of(*other) == bus_of(rank);
                    let others = (0..config.ranks).filter(same_bus);
                    latest(others.map(|other| by_rank[other][before]))
                }
            };
            if last != NEVER && now - last < least {
                let found = now - last;
                fail(format!("{rule:?}: {found} ticks, least {least}"));
            }
        }

        // States of rows.
        for index in &affected {
            let one = &mut banks[*index];
            if now < one.closes && !matches!(class, Act | RefAll | RefPart) {
                fail("to a bank whose row is closing".to_owned());
            }
            match class {
                Act | RefAll | RefPart if one.row.is_some() => fail("a row is open".to_owned()),
                Rd | Wr if one.row != Some(command.row) => fail("another row".to_owned()),
                _ => {}
            }
            if class == Act {
                (one.row, one.opened, one.closes) = (Some(command.row), now, NEVER);
            }
            if class == Pre {
                one.row = None;
            }
            one.last[class as usize] = now;
        }
        by_group[group][class as usize] = now;
        by_rank[rank][class as usize] = now;

        if class == Act {
            let list = &mut activates[rank];
            list.push(now);
            let window = list
                .iter()
                .rev()
                .nth(4)
                .map_or(i64::MAX, |fifth| now - fifth);
            if window < i64::from(t.faw) * tick {
                fail(format!("five activates in {window} ticks"));
            }
        }

        let managed = matches!(
            command.kind,
            Kind::ManageAll | Kind::ManageBank | Kind::ManageSame
        );
        if (class == RefAll || class == RefPart) && !managed {
            refreshes[rank].push(now);
        }
        for index in &affected {
            let one = &mut banks[*index];
            match class {
                Act => one.activates += 1,
                RefAll | RefPart => one.activates = one.activates.saturating_sub(config.rfm),
                _ => {}
            }
            // RAAMMT is at least three times RAAIMT (JESD79-5).
            if config.rfm > 0 && one.activates > 3 * config.rfm {
                fail(format!("{} activates without management", one.activates));
            }
        }

        if class == Rd || class == Wr {
            let (latency, closes) = if class == Rd {
                (t.cl, i64::from(t.rtp))
            } else {
                (t.cwl, i64::from(t.cwl + t.burst + t.wr))
            };
            // Data bursts do not overlap on the bus, and have the turnaround or the rank
            // gap between them.
            let begin = now + i64::from(latency) * tick;
            let end = begin + i64::from(t.burst) * tick;
            let wire = rank / per_bus;
            if let Some((_, until, other, reads)) = data[wire] {
                let gap = match (reads, class == Rd) {
                    (false, false) => 0,
                    _ if other != rank => i64::from(t.rank_gap) * tick,
                    (true, false) => i64::from(t.rtw_gap) * tick,
                    _ => 0,
                };
                if begin < until + gap {
                    fail(format!("data from {begin}, bus busy until {until}"));
                }
            }
            data[wire] = Some((begin, end, rank, class == Rd));
            if t.wck_post > 0 {
                if now >= clock_until && cas != now - i64::from(bus.cas) {
                    fail("no CAS before the access".to_owned());
                }
                clock_until = clock_until.max(end + i64::from(t.wck_post) * tick);
            }
            if matches!(command.kind, Kind::ReadPrecharge | Kind::WritePrecharge) {
                let longer =
                    |ticks: u32| i64::from(bus.from_last) * (i64::from(ticks) - i64::from(bus.row));
                let one = &mut banks[bank];
                one.closes = (now + closes * tick + longer(bus.column))
                    .max(one.opened + i64::from(t.ras) * tick + longer(bus.act));
                one.row = None;
                one.last[Pre as usize] = one.last[Pre as usize].max(one.closes);
            }
        }
    }

    // Each rank is refreshed often enough, and no gap is longer than two intervals.
    use crate::dram::channel::Refresh;
    let interval = match config.refresh {
        Refresh::Off => return wrong,
        Refresh::AllBank => i64::from(t.refi) * tick,
        Refresh::PerBank => i64::from(t.refi) * tick / per_rank as i64,
        Refresh::SameBank => i64::from(t.refi) * tick / (2 * per_group) as i64,
    };
    let end = commands.last().map_or(0, |last| last.tick as i64);
    for (rank, list) in refreshes.iter().enumerate() {
        let owed = end / interval;
        if (list.len() as i64) < owed - 2 {
            let found = list.len();
            wrong.push(format!(
                "rank {rank}: {found} of {owed} refreshes until {end}"
            ));
        }
        let mut last = 0;
        for now in list {
            let late = i64::from(t.rfc.max(t.ras + t.wr + t.cwl) + t.rp + 200) * tick;
            if now - last > 2 * interval + late {
                wrong.push(format!("rank {rank}: no refresh from {last} to {now}"));
            }
            last = *now;
        }
    }
    wrong
}
