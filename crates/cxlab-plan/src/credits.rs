//! Finds links that are limited by credits and not by the wire, from the rate of a link times the
//! round trip of a credit.

use cxlab_link::MOST_CREDITS;
use cxlab_protocol::Channel;
use cxlab_scenario::Note;

use crate::links::PlannedLink;
use crate::plan::Plan;

/// The bandwidth limit that the credits of a message class set on a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CreditLimit {
    /// Most bandwidth that the credits allow, in GB/s of line data.
    pub carried: f64,
    /// Most bandwidth that the wire allows, in GB/s of line data.
    pub wire: f64,
    /// Credits that would be enough for the full rate of the wire.
    pub needed: u64,
}

impl CreditLimit {
    /// The limit of a message class on a link; `None` if the wire is the limit.
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

    /// Says in words which change would remove the limit.
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

/// The message classes that this plan may use. CXL.io is left out, because its packets vary in size.
fn classes(plan: &Plan) -> impl Iterator<Item = Channel> {
    let scenario = &plan.scenario;
    let snooped = scenario.back_invalidation().is_some();
    let cache = !scenario.accelerators.is_empty();
    let is_used = move |channel: &Channel| match channel {
        Channel::S2mBisnp | Channel::M2sBirsp => snooped,
        channel if channel.is_io() => false,
        channel if channel.is_cache() => cache,
        _ => true,
    };
    Channel::ALL.into_iter().filter(is_used)
}

/// A note for each class of links that credits limit, about the link of the class that is limited most.
pub(crate) fn notes(plan: &Plan) -> Vec<Note> {
    let mut notes: Vec<(f64, Note)> = Vec::new();
    for link in &plan.links {
        let limit = |channel| Some((channel, CreditLimit::of(plan, link, channel)?));
        let limits: Vec<(Channel, CreditLimit)> = classes(plan).filter_map(limit).collect();
        let worst = limits.iter().map(|(_, limit)| *limit);
        let Some(worst) = worst.min_by(|a, b| a.carried.total_cmp(&b.carried)) else {
            continue;
        };
        let named = limits.iter().map(|(channel, _)| {
            let credits = link.params.credits_of(*channel);
            format!("{} = {credits}", channel.name())
        });
        let named: Vec<String> = named.collect();
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
        match notes.iter_mut().find(|(_, other)| other.path == note.path) {
            Some(found) if worst.carried < found.0 => *found = (worst.carried, note),
            Some(_) => {}
            None => notes.push((worst.carried, note)),
        }
    }
    notes.into_iter().map(|(_, note)| note).collect()
}
