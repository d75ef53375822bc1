//! Names that are resolved while a run goes on: on a thread of its own, because the resolver of the
//! system blocks.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::io::Errno;

use crate::error::LoadError;
use crate::orders::{Mailbox, Order};
use crate::target::{Address, Target};

/// A host with what decides which of its addresses can be used.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) target: Target,
    /// Local addresses to connect from; empty for any.
    pub(crate) sources: Vec<IpAddr>,
}

impl Name {
    /// Whether there is anything to resolve.
    pub(crate) fn is_name(&self) -> bool {
        self.target.host.parse::<IpAddr>().is_err()
    }

    /// Every address that can be reached from the sources.
    pub(crate) fn resolve(&self) -> Result<Vec<Address>, LoadError> {
        let mut addresses = self.target.resolve().map_err(|reason| LoadError::Resolve {
            host: self.target.host.clone(),
            reason,
        })?;
        let has_source = |address: &SocketAddr| {
            let mut sources = self.sources.iter();
            self.sources.is_empty() || sources.any(|own| own.is_ipv4() == address.is_ipv4())
        };
        if !addresses.iter().any(has_source) {
            return Err(LoadError::SourceFamily { addresses });
        }
        addresses.retain(has_source);
        Ok(addresses.into_iter().map(Address::Inet).collect())
    }
}

/// What a client thread wants to know: for which of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) slot: usize,
    /// The generation of the slot, so that an answer that comes too late is known.
    pub(crate) generation: u32,
}

/// Every address of a name, or why there is none, for people.
pub(crate) type Known = Result<Arc<[Address]>, Arc<str>>;

/// What the resolver said.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) question: Question,
    pub(crate) addresses: Known,
}

/// Asks the resolver on behalf of one client thread.
#[derive(Debug)]
pub(crate) struct Resolver(Sender<Question>);

impl Resolver {
    /// Starts the thread. It ends when its client thread has gone, and is not waited for: a
    /// resolver that hangs must not hold up the end of a run.
    pub(crate) fn start(name: Name, mailbox: Arc<Mailbox>) -> Result<Self, LoadError> {
        let (asked, questions) = channel();
        std::thread::Builder::new()
            .name("load-resolver".to_owned())
            .spawn(move || answer_all(&name, &mailbox, &questions))
            .map_err(|error| LoadError::Os {
                call: "clone of a thread for the resolver",
                errno: Errno::from_io_error(&error).unwrap_or(Errno::AGAIN),
            })?;
        Ok(Self(asked))
    }

    /// The answer comes by mail.
    pub(crate) fn ask(&self, question: Question) {
        // The thread ends only after this side.
        let _gone = self.0.send(question);
    }
}

/// Answers until nobody asks any more. Whoever asked before the resolver was asked is answered with
/// what it says: connections that are opened together wait for it once.
fn answer_all(name: &Name, mailbox: &Mailbox, questions: &Receiver<Question>) {
    while let Ok(first) = questions.recv() {
        let waiting: Vec<Question> = std::iter::once(first).chain(questions.try_iter()).collect();
        let addresses: Known = match name.resolve() {
            Ok(addresses) => Ok(addresses.into()),
            Err(error) => Err(error.to_string().into()),
        };
        for question in waiting {
            let addresses = addresses.clone();
            mailbox.put(Order::Connect(Answer {
                question,
                addresses,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(url: &str, sources: &[&str]) -> Vec<Answer> {
        let name = Name {
            target: Target::parse(url).unwrap(),
            sources: sources.iter().map(|own| own.parse().unwrap()).collect(),
        };
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let (asked, questions) = channel();
        for slot in 0..3 {
            let generation = 7;
            asked.send(Question { slot, generation }).unwrap();
        }
        drop(asked);
        answer_all(&name, &mailbox, &questions);
        let orders = std::iter::from_fn(|| mailbox.take());
        orders
            .map(|order| match order {
                Order::Connect(answer) => answer,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// Everybody who asked gets an answer: addresses, or why there are none.
    #[test]
    fn everybody_is_answered() {
        let known = answers("http://127.0.0.1:9/", &["127.0.0.2"]);
        let wanted = [Address::Inet("127.0.0.1:9".parse().unwrap())];
        assert_eq!(known.len(), 3);
        for (slot, answer) in known.iter().enumerate() {
            assert_eq!(
                (answer.question.slot, answer.question.generation),
                (slot, 7)
            );
            assert_eq!(*answer.addresses.clone().unwrap(), wanted);
        }
        // .invalid is reserved for this (RFC 2606).
        let unknown = answers("http://no-such-host.invalid/", &[]);
        assert_eq!(unknown.len(), 3);
        let why = unknown[2].addresses.clone().unwrap_err();
        assert!(why.contains("no-such-host.invalid"), "{why}");
        let elsewhere = answers("http://127.0.0.1:9/", &["::1"]);
        let why = elsewhere[0].addresses.clone().unwrap_err();
        assert!(why.contains("do not mix"), "{why}");
    }
}
