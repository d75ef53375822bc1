//! Programs that block in a call of each kind before they are looked at, and stay there.

use std::os::fd::AsFd as _;

use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::io::read;
use rustix::pipe::pipe;

use crate::{done, raw};

/// A thread that blocks in a call, by its name; the first one waits for the test.
pub(crate) fn blocked_in(call: &str) {
    let call = call.to_owned();
    std::thread::spawn(move || block(&call));
    done();
}

fn block(call: &str) {
    let (reader, _writer) = pipe().expect("a pipe");
    match call {
        "epoll_wait" => {
            let epoll = epoll::create(epoll::CreateFlags::empty()).expect("epoll");
            let data = epoll::EventData::new_u64(0);
            epoll::add(&epoll, &reader, data, epoll::EventFlags::IN).expect("epoll_ctl");
            raw::epoll_wait(epoll.as_fd(), 1, -1);
        }
        "futex" => raw::futex_wait_for_ever(),
        // sleeps: the call that is looked at, until the test is over.
        "nanosleep" => std::thread::sleep(std::time::Duration::from_secs(1_000)),
        "poll" => {
            poll(&mut [PollFd::new(&reader, PollFlags::IN)], None).expect("poll");
        }
        "read" => {
            let mut byte = [0];
            read(&reader, &mut byte).expect("a pipe");
        }
        other => panic!("no call {other}"),
    }
}
