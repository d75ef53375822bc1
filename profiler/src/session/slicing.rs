//! Slices of an open window.

use recording::ProfileSlice;

use super::edges::Copied;
use super::{Session, row_names};
use crate::ProfilerError;
use crate::slices::{SliceEdge, counts_between, details_between};

impl Session {
    /// Ends a sub-window. It is part of the profile that [`close`](Self::close) returns as well, unless
    /// the window is [endless](crate::Config::endless).
    pub fn slice(&mut self) -> Result<ProfileSlice, ProfilerError> {
        self.tick();
        if self.window.is_none() {
            return Err(ProfilerError::NotOpen);
        }
        let slice = if self.config.slice_details {
            self.slice_with_details()
        } else {
            self.slice_of_counts()
        };
        let slice = slice?;
        if !self.config.endless
            && let Some(window) = &mut self.window
        {
            window.slices.push(slice.clone());
        }
        Ok(slice)
    }

    /// What a slice begins or ends with, of a copy that was made.
    pub(super) fn slice_edge(&self, copied: &Copied) -> SliceEdge {
        let mut edge = SliceEdge {
            snapshot: copied.snapshot.clone(),
            ..SliceEdge::default()
        };
        if self.config.slice_details {
            edge.states.clone_from(&copied.states);
            edge.groups = copied.groups.clone();
        }
        edge
    }

    fn slice_of_counts(&mut self) -> Result<ProfileSlice, ProfilerError> {
        let snapshot = self.snapshot();
        let window = self.window.as_mut().ok_or(ProfilerError::NotOpen)?;
        let names = row_names(&self.source.tables());
        let slice = counts_between(&window.last.snapshot, &snapshot, &names, self.config.detail);
        window.last.snapshot = snapshot;
        Ok(slice)
    }

    fn slice_with_details(&mut self) -> Result<ProfileSlice, ProfilerError> {
        let copied = self.copy(false);
        let edge = self.slice_edge(&copied);
        let alive = self.tracked.alive();
        let seen = self.thread_names(&alive);
        let window = self.window.as_mut().ok_or(ProfilerError::NotOpen)?;
        let threads = &mut window.thread_names;
        threads.extend(seen);
        if self.config.endless && threads.len() > NAMES_KEPT {
            // Those that ended long ago have nothing in a slice any more.
            threads.retain(|_, (pid, _)| alive.contains(pid));
        }
        let known = |id: u32| {
            let thread = threads.get(&id).map(|(_, comm)| comm.clone());
            thread.or_else(|| self.tracked.comm(id))
        };
        let process_of = |tid: u32| threads.get(&tid).map(|&(pid, _)| pid);
        let mut slice = details_between(
            (&window.last, &edge),
            &row_names(&self.source.tables()),
            self.config.detail,
            self.config.group_by,
            known,
            process_of,
        );
        let edges = (&window.last.snapshot, &edge.snapshot);
        let missing = self.source.missing();
        let network = self
            .below
            .slice(&alive, &self.source.tables(), edges, missing);
        slice.network = network.map(Box::new);
        window.last = edge;
        Ok(slice)
    }
}

/// Names of threads that are kept where the window may never end: more than a process has.
const NAMES_KEPT: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use recording::{Detail, Profile};

    use super::super::tests::Busy;
    use super::*;
    use crate::source::replay::Replay;
    use crate::{Config, Target};

    /// A session over counters that change whenever they are read.
    fn busy(change: impl FnOnce(&mut Config)) -> Session {
        let mut config = Config::new([Target::Pid(1)], Detail::Counts);
        change(&mut config);
        let mut session = Session::over(config, Box::new(Busy(Replay::new(8))));
        session.open(false).unwrap();
        session
    }

    fn calls(profile: &Profile) -> BTreeMap<&str, u64> {
        let calls = profile.calls.iter();
        calls.map(|call| (call.name.as_str(), call.count)).collect()
    }

    fn sums(slices: &[ProfileSlice]) -> BTreeMap<&str, u64> {
        let mut sums = BTreeMap::new();
        for call in slices.iter().flat_map(|slice| &slice.calls) {
            *sums.entry(call.name.as_str()).or_default() += call.count;
        }
        sums
    }

    /// Of thousands of slices of an endless window none is kept but the last; those that were handed
    /// out and that one add up to the profile, edge to edge.
    #[test]
    fn endless_windows_keep_no_slice() {
        let mut session = busy(|config| config.endless = true);
        let mut slices: Vec<ProfileSlice> = Vec::new();
        for _ in 0..2_000 {
            slices.push(session.slice().unwrap());
            let kept = &session.window.as_ref().unwrap().slices;
            assert_eq!((kept.len(), kept.capacity()), (0, 0));
        }
        let profile = session.close(false).unwrap();
        assert_eq!(profile.slices.len(), 1);
        slices.extend(profile.slices.iter().cloned());
        assert!(!sums(&slices).is_empty());
        assert_eq!(sums(&slices), calls(&profile));
        assert_eq!(slices[0].window.start_ns, profile.window.start_ns);
        for pair in slices.windows(2) {
            assert_eq!(pair[0].window.end_ns, pair[1].window.start_ns);
        }
        assert_eq!(slices[2_000].window.end_ns, profile.window.end_ns);
    }

    /// Other windows keep them all, and they add up too; where none was asked for there is none.
    #[test]
    fn other_windows_keep_their_slices() {
        for (count, kept) in [(0, 0), (3, 4)] {
            let mut session = busy(|_| {});
            for _ in 0..count {
                session.slice().unwrap();
            }
            let profile = session.close(false).unwrap();
            assert_eq!(profile.slices.len(), kept);
            if kept > 0 {
                assert_eq!(sums(&profile.slices), calls(&profile));
            }
        }
    }

    /// Details do not change what is counted: the same sums, with the groups of each slice.
    #[test]
    fn details_add_up_as_well() {
        let mut session = busy(|config| config.slice_details = true);
        for _ in 0..10 {
            assert!(session.slice().unwrap().groups.is_empty(), "nobody grouped");
        }
        let profile = session.close(false).unwrap();
        assert_eq!(sums(&profile.slices), calls(&profile));
    }
}
