//! The threads' own loops.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::health::{Fate, Fates, Histogram, Pulse};
use super::lane::Lane;
use super::model::{Answer, Decode, Follow, Infer, Prepare, Sink, Spent};
use crate::batch::{Batcher, Decision, MAX_BATCH, MemoryState, Reason, Run};
use crate::clock::{Clock, RealClock, Time};
use crate::frame::{Frame, lock};
use crate::ring::{Bell, FrameRing, Keep};

/// The longest silence of a thread that is well.
pub(super) const NAP: Duration = Duration::from_millis(50);
/// How often memory is looked at.
const MEMORY_EVERY: Duration = Duration::from_secs(1);

/// What all threads see.
pub(super) struct Shared {
    pub(super) batcher: Mutex<Batcher>,
    pub(super) fates: Vec<Fates>,
    pub(super) ages: Histogram,
    pub(super) stop: AtomicBool,
    /// Batches that were prepared and have not been run to their end.
    pub(super) pending: AtomicUsize,
    /// When the running one is expected to end, in nanoseconds; 0: it is just being handed over.
    pub(super) busy_until: AtomicU64,
    /// Nanoseconds that decoding a batch has taken lately.
    pub(super) tail: AtomicU64,
    pub(super) bell: Arc<Bell>,
}

impl Shared {
    fn count(&self, source: u32, fate: Fate) {
        if let Some(fates) = self.fates.get(source as usize) {
            fates.count(fate);
        }
    }
}

/// A frame of a job.
#[derive(Clone, Copy)]
pub(super) struct Member {
    source: crate::frame::SourceId,
    id: u64,
    sequence: u64,
    captured: Time,
    failed: bool,
}

/// A batch on its way.
pub(super) struct Job<B> {
    tensors: B,
    members: Vec<Member>,
    pictures: Vec<Option<Frame>>,
    run: Option<Run>,
    expected: Duration,
    taken: Time,
    prepare: Duration,
    infer: Duration,
}

impl<B> Job<B> {
    pub(super) fn new(tensors: B) -> Job<B> {
        Job {
            tensors,
            members: Vec::with_capacity(MAX_BATCH),
            pictures: Vec::with_capacity(MAX_BATCH),
            run: None,
            expected: Duration::ZERO,
            taken: Time::ZERO,
            prepare: Duration::ZERO,
            infer: Duration::ZERO,
        }
    }
}

/// Takes frames from the rings, decides, prepares.
pub(super) struct BatchWorker<B> {
    pub(super) shared: Arc<Shared>,
    pub(super) rings: Vec<Arc<FrameRing>>,
    /// Frames of each source that wait for the batcher's decision.
    pub(super) held: Vec<Vec<Frame>>,
    pub(super) prepare: Box<dyn Prepare<B>>,
    pub(super) free: Arc<Lane<Job<B>>>,
    pub(super) out: Arc<Lane<Job<B>>>,
    /// Decide as late as possible.
    pub(super) just_in_time: bool,
    /// A sink wants pictures, which then travel on.
    pub(super) pictures: bool,
    pub(super) memory: Box<dyn FnMut() -> Option<MemoryState> + Send>,
    pub(super) pulse: Arc<Pulse>,
}

impl<B: Send> BatchWorker<B> {
    pub(super) fn run(mut self) {
        let bell = Arc::clone(&self.shared.bell);
        let mut spare: Option<Job<B>> = None;
        let mut each = Duration::ZERO;
        let mut memory_next = Time::ZERO;
        let mut last_end = Time::ZERO;
        loop {
            let seen = bell.count();
            let now = RealClock.now();
            self.pulse.beat(now);
            if self.shared.stop.load(Ordering::Acquire) {
                break;
            }
            if now >= memory_next {
                memory_next = now + MEMORY_EVERY;
                if let Some(state) = (self.memory)() {
                    lock(&self.shared.batcher).memory(now, state);
                }
            }
            let over = self.take_frames();
            spare = spare.or_else(|| self.free.pop(Duration::ZERO));
            let mut wake = now + NAP;
            // One batch waits ready at most: more would only grow old.
            if spare.is_some() && self.shared.pending.load(Ordering::Acquire) < 2 {
                match self.decide(each, last_end) {
                    Ok(()) => {
                        if let Some(mut job) = spare.take() {
                            self.fill(&mut job, &mut each);
                            last_end = last_end.max(RealClock.now()) + job.expected;
                            self.shared.pending.fetch_add(1, Ordering::AcqRel);
                            if let Err(job) = self.out.try_push(job) {
                                self.abandon(&job, Fate::Stopped);
                                break;
                            }
                            self.pulse.worked(RealClock.now());
                            continue;
                        }
                    }
                    Err(until) => wake = wake.min(until),
                }
            }
            if over && self.held.iter().all(Vec::is_empty) {
                break;
            }
            bell.wait(seen, wake.since(RealClock.now()));
        }
        for (source, frames) in self.held.iter_mut().enumerate() {
            for frame in frames.drain(..) {
                drop(frame);
                self.shared.count(source as u32, Fate::Stopped);
            }
        }
        self.out.close();
    }

    /// Offers what has come; whether nothing more will.
    fn take_frames(&mut self) -> bool {
        let mut over = true;
        let mut batcher = lock(&self.shared.batcher);
        for (source, ring) in self.rings.iter().enumerate() {
            // Asked first: what was put in before it closed is seen below.
            let closed = ring.is_closed();
            while ring.keep() == Keep::Latest || batcher.has_room(source as u32) {
                let Some(frame) = ring.try_pop() else { break };
                let (id, captured) = (frame.id, Time::from(frame.captured));
                self.held[source].push(frame);
                batcher.offer(RealClock.now(), source as u32, id, captured);
                release(&mut batcher, &mut self.held, &self.shared);
            }
            over &= closed && ring.is_empty();
        }
        over
    }

    /// Asks the batcher; an error is when to ask again.
    fn decide(&mut self, each: Duration, last_end: Time) -> Result<(), Time> {
        let mut batcher = lock(&self.shared.batcher);
        let now = RealClock.now();
        let ahead = each * batcher.waiting().min(batcher.cap()) as u32;
        let busy = match (
            self.shared.pending.load(Ordering::Acquire),
            self.shared.busy_until.load(Ordering::Acquire),
        ) {
            (0, _) => now,
            (_, 0) => last_end,
            (_, until) => Time::from_nanos(until),
        };
        if self.just_in_time && now + ahead < busy {
            return Err(busy - ahead);
        }
        let tail = Duration::from_nanos(self.shared.tail.load(Ordering::Relaxed));
        let start = busy.max(now + ahead) + tail;
        let decision = batcher.decide_for(now, start);
        release(&mut batcher, &mut self.held, &self.shared);
        match decision {
            Decision::Launch => Ok(()),
            // The batcher speaks of when a run would start.
            Decision::Wait(until) => Err(until - start.since(now)),
        }
    }

    /// Moves the launched frames into `job` and prepares them.
    fn fill(&mut self, job: &mut Job<B>, each: &mut Duration) {
        let start = RealClock.now();
        job.members.clear();
        job.pictures.clear();
        {
            let mut batcher = lock(&self.shared.batcher);
            for ticket in batcher.batch() {
                let held = &mut self.held[ticket.source as usize];
                let Some(place) = held.iter().position(|f| f.id == ticket.id) else { continue };
                let frame = held.remove(place);
                job.members.push(Member {
                    source: frame.source,
                    id: frame.id,
                    sequence: frame.sequence,
                    captured: Time::from(frame.captured),
                    failed: false,
                });
                job.pictures.push(Some(frame));
            }
            job.expected = Duration::from_nanos(batcher.curve().nanos(job.members.len()));
            job.run = batcher.detach();
        }
        job.taken = start;
        for (index, (member, picture)) in job.members.iter_mut().zip(&mut job.pictures).enumerate() {
            let ready =
                picture.as_ref().is_some_and(|f| self.prepare.prepare(f, &mut job.tensors, index).is_ok());
            member.failed = !ready;
            if !self.pictures {
                // The camera gets its buffer back before the network runs.
                *picture = None;
            }
        }
        job.prepare = RealClock.now().since(start);
        let latest = job.prepare / job.members.len().max(1) as u32;
        *each = if each.is_zero() { latest } else { (*each * 7 + latest) / 8 };
    }

    fn abandon(&self, job: &Job<B>, fate: Fate) {
        for member in &job.members {
            self.shared.count(member.source.0, fate);
        }
    }
}

/// Lets go of the frames that the batcher gave up.
fn release(batcher: &mut Batcher, held: &mut [Vec<Frame>], shared: &Shared) {
    while let Some((ticket, reason)) = batcher.shed() {
        let Some(frames) = held.get_mut(ticket.source as usize) else { continue };
        // The one offered last is the one that a repeated number means.
        if let Some(place) = frames.iter().rposition(|f| f.id == ticket.id) {
            frames.remove(place);
        }
        shared.count(
            ticket.source,
            match reason {
                Reason::Late => Fate::Late,
                Reason::Overload => Fate::Overload,
                Reason::Replaced => Fate::Replaced,
                Reason::Rate => Fate::Rate,
                Reason::OutOfOrder => Fate::OutOfOrder,
            },
        );
    }
}

/// Runs the network.
pub(super) struct InferWorker<B> {
    pub(super) shared: Arc<Shared>,
    pub(super) infer: Box<dyn Infer<B>>,
    pub(super) from: Arc<Lane<Job<B>>>,
    pub(super) out: Arc<Lane<Job<B>>>,
    pub(super) pulse: Arc<Pulse>,
}

impl<B: Send> InferWorker<B> {
    pub(super) fn run(mut self) {
        while !self.from.is_over() {
            let job = self.from.pop(NAP);
            let start = RealClock.now();
            self.pulse.beat(start);
            let Some(mut job) = job else { continue };
            self.shared.busy_until.store((start + job.expected).nanos(), Ordering::Release);
            self.shared.bell.ring();
            let limit = lock(&self.shared.batcher).memory_limit().max(1);
            let count = job.members.len();
            let mut ok = true;
            for first in (0..count).step_by(limit) {
                ok &= self.infer.infer(&mut job.tensors, first..(first + limit).min(count)).is_ok();
            }
            job.infer = RealClock.now().since(start);
            if let Some(run) = job.run.take() {
                lock(&self.shared.batcher).ran(run, (ok && count <= limit).then_some(job.infer));
            }
            if !ok {
                job.members.iter_mut().for_each(|m| m.failed = true);
            }
            self.shared.busy_until.store(0, Ordering::Release);
            self.shared.pending.fetch_sub(1, Ordering::AcqRel);
            self.pulse.worked(RealClock.now());
            // There are fewer jobs than places.
            drop(self.out.try_push(job));
            self.shared.bell.ring();
        }
        self.out.close();
    }
}

/// Decodes, follows, hands out.
pub(super) struct DecodeWorker<B> {
    pub(super) shared: Arc<Shared>,
    pub(super) decode: Box<dyn Decode<B>>,
    pub(super) follow: Option<Box<dyn Follow>>,
    pub(super) from: Arc<Lane<Job<B>>>,
    pub(super) free: Arc<Lane<Job<B>>>,
    pub(super) sinks: Vec<Arc<Outlet>>,
    /// Answers that go round; one is free when nobody else has it.
    pub(super) answers: Vec<Arc<Answer>>,
    pub(super) pulse: Arc<Pulse>,
}

impl<B: Send> DecodeWorker<B> {
    pub(super) fn run(mut self) {
        while !self.from.is_over() {
            let job = self.from.pop(NAP);
            let start = RealClock.now();
            self.pulse.beat(start);
            // Pictures that no sink holds any more go back to their sources.
            for answer in &mut self.answers {
                if let Some(answer) = Arc::get_mut(answer) {
                    answer.picture = None;
                }
            }
            let Some(mut job) = job else { continue };
            for index in 0..job.members.len() {
                self.answer(&mut job, index, start);
            }
            let took = RealClock.now().since(start).as_nanos() as u64;
            let tail = self.shared.tail.load(Ordering::Relaxed);
            self.shared.tail.store(if tail == 0 { took } else { (tail * 7 + took) / 8 }, Ordering::Relaxed);
            job.pictures.clear();
            self.pulse.worked(RealClock.now());
            drop(self.free.try_push(job));
            self.shared.bell.ring();
        }
        self.sinks.iter().for_each(|s| s.lane.close());
    }

    fn answer(&mut self, job: &mut Job<B>, index: usize, start: Time) {
        let member = job.members[index];
        // The one used last, whose vectors have grown already.
        let place = self.answers.iter_mut().rposition(|a| Arc::get_mut(a).is_some());
        let mut shared_answer = match place {
            Some(place) => self.answers.remove(place),
            None => Arc::new(Answer::default()),
        };
        let Some(answer) = Arc::get_mut(&mut shared_answer) else { return };
        let good = !member.failed && self.decode.decode(&mut job.tensors, index, &mut answer.found).is_ok();
        if good {
            (answer.source, answer.id, answer.sequence) = (member.source, member.id, member.sequence);
            (answer.captured, answer.batch) = (member.captured, job.members.len());
            answer.picture = job.pictures.get_mut(index).and_then(Option::take);
            answer.tracks.clear();
            if let Some(follow) = &mut self.follow {
                follow.follow(answer.source, answer.captured, &answer.found, &mut answer.tracks);
            }
            answer.answered = RealClock.now();
            answer.spent = Spent {
                waiting: job.taken.since(member.captured),
                prepare: job.prepare,
                infer: job.infer,
                decode: answer.answered.since(start),
            };
            self.shared.ages.record(answer.age());
            for outlet in &self.sinks {
                if outlet.lane.push_latest(Arc::clone(&shared_answer)).is_some() {
                    outlet.missed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.shared.count(member.source.0, if good { Fate::Answered } else { Fate::Failed });
        self.answers.push(shared_answer);
    }
}

/// A sink's queue and counts.
pub(super) struct Outlet {
    pub(super) name: String,
    pub(super) lane: Lane<Arc<Answer>>,
    pub(super) delivered: AtomicU64,
    pub(super) missed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) pulse: Pulse,
}

/// Serves one sink.
pub(super) fn serve(mut sink: Box<dyn Sink>, outlet: &Outlet) {
    while !outlet.lane.is_over() {
        let answer = outlet.lane.pop(NAP);
        outlet.pulse.beat(RealClock.now());
        let Some(answer) = answer else { continue };
        let counter = if sink.accept(&answer).is_ok() { &outlet.delivered } else { &outlet.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        drop(answer);
        outlet.pulse.worked(RealClock.now());
    }
    if let Err(e) = sink.finish() {
        log::warn!("{}: {e}", outlet.name);
    }
}
