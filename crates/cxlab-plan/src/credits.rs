//! Links that credits, and not the wire, limit: found before a run from the rate of a link times the
//! round trip of a credit.

use cxlab_link::MOST_CREDITS;
use cxlab_protocol::Channel;
use cxlab_scenario::Note;

use super::{Plan, PlannedLink};

/// What the credits of a class allow on a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CreditLimit {
    /// Lines in GB/s that they carry at most.
    pub carried: f64,
    /// Lines in GB/s that the wire carries at most.
    pub wire: f64,
    /// Credits that the wire needs.
    pub needed: u64,
}

impl CreditLimit {
    /// The limit of a class on a link; `None` where the wire is what limits.
    pub fn of(plan: &Plan, link: &PlannedLink, channel: Channel) -> Option<CreditLimit> {
        let params = &link.params;
        let pipelines = plan.pipelines(link);
        let round = params.credit_round_ps() as f64;
        let whole = round + pipelines.0 as f64;
        let window = params.windows(pipelines)[channel.index()];
        let credits = params.credits_of(channel);
        let gb_per_s = |lines_per_ps: f64| 64_000.0 * lines_per_ps;
        let wire = gb_per_s(1.0 / params.line_ps());
        let carried = gb_per_s((f64::from(credits) / round).min(f64::from(window) / whole));
        (carried < wire).then(|| CreditLimit {
            carried,
            wire,
            needed: params.credits_needed(),
        })
    }

    /// What would lift it, in words.
    pub fn remedy(&self) -> String {
        match self.needed <= u64::from(MOST_CREDITS) {
            true => format!("{} carry all", self.needed),
            false => format!(
                "it would take {}, and a port advertises at most {MOST_CREDITS} (CXL 3.2, section \
                 8.2.4.19.3)",
                self.needed
            ),
        }
    }
}

/// Classes that messages of this plan may use, without CXL.io: its packets are of many sizes.
fn classes(plan: &Plan) -> impl Iterator<Item = Channel> {
    let scenario = &plan.scenario;
    let snooped = scenario.back_invalidation().is_some();
    let cache = !scenario.accelerators.is_empty();
    Channel::ALL
        .into_iter()
        .filter(move |channel| match channel {
            Channel::S2mBisnp | Channel::M2sBirsp => snooped,
            channel if channel.is_io() => false,
            channel if channel.is_cache() => cache,
            _ => true,
        })
}

/// A note for each class of link that credits limit, on the link that they limit most.
pub(crate) fn notes(plan: &Plan) -> Vec<Note> {
    let mut notes = Vec::new();
    for link in &plan.links {
        let limits: Vec<(Channel, CreditLimit)> = classes(plan)
            .filter_map(|channel| Some((channel, CreditLimit::of(plan, link, channel)?)))
            .collect();
        let worst = limits.iter().map(|(_, limit)| *limit);
        let Some(worst) = worst.min_by(|a, b| a.carried.total_cmp(&b.carried)) else {
            continue;
        };
        let named: Vec<String> = limits
            .iter()
            .map(|(channel, _)| {
                let credits = link.params.credits_of(*channel);
                format!("{} = {credits}", channel.name())
            })
            .collect();
        let message = format!(
            "{} carry at most {:.1} GB/s of lines over a round trip of {:.0} ns, and the wire carries \
             {:.1}; {}",
            named.join(", "),
            worst.carried,
            link.params.credit_round_ps() as f64 / 1e3,
            worst.wire,
            worst.remedy()
        );
        let note = Note::new(format!("{}.credits", plan.link_path(link)), message);
        match notes
            .iter_mut()
            .find(|(_, other): &&mut (f64, Note)| other.path == note.path)
        {
            Some(found) if worst.carried < found.0 => *found = (worst.carried, note),
            Some(_) => {}
            None => notes.push((worst.carried, note)),
        }
    }
    notes.into_iter().map(|(_, note)| note).collect()
}
