//! Enumeration that stops at each access until its owner has performed it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Access, Bus, EnumerateError, EnumerationLog, Goal, PlatformTables, enumerate_on};

/// The next step of enumeration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnumerationStep {
    /// The owner must perform this access.
    Access(Access),
    /// Enumeration has ended with this result.
    Done(Result<EnumerationLog, EnumerateError>),
}

/// What the software and its owner exchange: one access, then its result.
#[derive(Default)]
struct AccessExchange {
    access: Option<Access>,
    answer: Option<Result<u64, EnumerateError>>,
}

struct Owner(Arc<Mutex<AccessExchange>>);

impl Owner {
    fn hand<R>(&self, act: impl FnOnce(&mut AccessExchange) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Bus for Owner {
    async fn access(&mut self, access: Access) -> Result<u64, EnumerateError> {
        self.hand(|handed| handed.access = Some(access));
        let answer = |_: &mut Context<'_>| match self.hand(|handed| handed.answer.take()) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        };
        poll_fn(answer).await
    }
}

type Code = Pin<Box<dyn Future<Output = Result<EnumerationLog, EnumerateError>> + Send>>;

/// The software of [`super::enumerate`], run access by access.
pub struct Enumeration {
    code: Code,
    owner: Owner,
}

impl Enumeration {
    /// The software before its first access, on a platform with these firmware tables.
    pub fn new(platform: PlatformTables, goal: Goal) -> Enumeration {
        let handed = Arc::new(Mutex::new(AccessExchange::default()));
        let bus = Owner(Arc::clone(&handed));
        Enumeration {
            code: Box::pin(enumerate_on(bus, platform, goal)),
            owner: Owner(handed),
        }
    }

    /// Runs the software until its next access. `answer` is the result of the access before, and
    /// `None` in the first call. Must not be called again after [`EnumerationStep::Done`].
    pub fn next(&mut self, answer: Option<Result<u64, EnumerateError>>) -> EnumerationStep {
        self.owner.hand(|handed| handed.answer = answer);
        let mut context = Context::from_waker(Waker::noop());
        match self.code.as_mut().poll(&mut context) {
            Poll::Ready(result) => EnumerationStep::Done(result),
            Poll::Pending => match self.owner.hand(|handed| handed.access.take()) {
                Some(access) => EnumerationStep::Access(access),
                None => unreachable!("software waits for nothing but its accesses"),
            },
        }
    }
}
