//! The CPU thread of AXPY, with the part of the driver that runs on its core.

use std::sync::{Arc, PoisonError};

use super::{COMPUTE, COPY_IN, COPY_OUT, FILL, Job, Model, READ, own, register, vector};
use crate::thread::{Handle, Window};

/// Chunks that the CPU stores or loads at a time.
const WINDOW: usize = 4;

/// The direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Device,
    Host,
}

/// The CPU thread with its state.
struct Host<'t> {
    job: &'t Job,
    t: &'t Handle,
    x: u64,
    y: u64,
    copies: u64,
}

pub(super) async fn run(job: Arc<Job>, t: Handle) {
    t.mark(FILL);
    let x = t.map(job.vector, job.params.policy).await;
    let y = t.map(job.vector, job.params.policy).await;
    let mut host = Host {
        job: &job,
        t: &t,
        x,
        y,
        copies: 0,
    };
    host.fill().await;
    match job.params.model {
        Model::Cohet => host.start(x, y).await,
        Model::Explicit => host.explicit().await,
        Model::Unified => host.unified().await,
    }
    t.mark(READ);
    let result = host.read().await;
    *job.result.lock().unwrap_or_else(PoisonError::into_inner) = result;
}

impl Host<'_> {
    /// Stores the initial values of both vectors.
    async fn fill(&self) {
        let mut window = Window::new(2 * WINDOW);
        for (first, count) in self.job.chunks() {
            let bytes = |value: fn(&Job, u64) -> f64| -> Vec<u8> {
                let values = (first..first + count).map(|element| value(self.job, element));
                values.flat_map(f64::to_le_bytes).collect()
            };
            for (to, bytes) in [(self.x, bytes(Job::x)), (self.y, bytes(Job::y))] {
                window.room().await;
                window.add(self.t.write_range(to + first * 8, &bytes));
            }
            self.t.count(count as u32);
        }
        window.drain().await;
    }

    /// Loads the result vector `y`.
    async fn read(&self) -> Vec<u8> {
        let mut window = Window::new(WINDOW);
        let mut result = Vec::with_capacity(self.job.params.elements as usize * 8);
        for (first, count) in self.job.chunks() {
            if let Some(bytes) = window.room().await {
                result.extend(bytes);
            }
            window.add(self.t.read_range(self.y + first * 8, count * 8));
            self.t.count(count as u32);
        }
        while let Some(bytes) = window.oldest().await {
            result.extend(bytes);
        }
        result
    }

    /// Starts the processing elements on vectors at these addresses, and waits for the result.
    /// While it waits, the host copies the pages that the elements request.
    async fn start(&mut self, x: u64, y: u64) {
        self.t.mark(COMPUTE);
        let arguments = [
            (register::X, x),
            (register::Y, y),
            (register::N, self.job.params.elements),
            (register::A, self.job.a().to_bits()),
            (register::RUN, 1),
        ];
        for (number, value) in arguments {
            self.t.mmio_write(0, number, value).await;
        }
        loop {
            self.t.wait_interrupt(vector::ATTENTION).await;
            match self.t.mmio_read(0, register::FAULT).await {
                0 => return,
                page => self.bring(page - 1).await,
            }
        }
    }

    /// Makes the accelerator's copy engine move bytes, and waits for the end of the copy. `offset`
    /// counts from the beginning of `x`; in the accelerator's memory, `y` follows `x`.
    async fn copy(&mut self, to: To, offset: u64, bytes: u64) {
        let vector = self.job.vector;
        let host = if offset < vector {
            self.x + offset
        } else {
            self.y + offset - vector
        };
        self.copies += 1;
        let command = [
            (register::COPY_HOST, host),
            (register::COPY_DEVICE, own::VECTORS + offset),
            (register::COPY_BYTES, bytes),
            (register::COPY_OUT, u64::from(to == To::Host)),
            (register::COPY, self.copies),
        ];
        for (number, value) in command {
            self.t.mmio_write(0, number, value).await;
        }
        self.t.wait_interrupt(vector::COPIED).await;
    }

    /// Copies both vectors to the accelerator, computes there, and copies the result back.
    async fn explicit(&mut self) {
        let (vector, bytes) = (self.job.vector, self.job.params.elements * 8);
        self.t.mark(COPY_IN);
        for offset in [0, vector] {
            self.t.compute(self.job.params.call_cycles).await;
            self.copy(To::Device, offset, bytes).await;
        }
        self.t.count(self.job.params.elements as u32);
        self.t.compute(self.job.params.call_cycles).await;
        self.start(own::VECTORS, own::VECTORS + vector).await;
        self.t.mark(COPY_OUT);
        self.t.compute(self.job.params.call_cycles).await;
        self.copy(To::Host, vector, bytes).await;
        self.t.count(self.job.params.elements as u32);
    }

    /// Computes on the accelerator, and copies each page of the result back when
    /// the CPU accesses it.
    async fn unified(&mut self) {
        self.t.compute(self.job.params.call_cycles).await;
        let vector = self.job.vector;
        self.start(own::VECTORS, own::VECTORS + vector).await;
        self.t.mark(COPY_OUT);
        for offset in (0..vector).step_by(self.job.params.page.0 as usize) {
            self.t.compute(self.job.params.fault_cycles).await;
            self.copy(To::Host, vector + offset, self.job.params.page.0)
                .await;
        }
        self.t.count(self.job.params.elements as u32);
    }

    /// Handles a fault of the accelerator: copies the missing page to it.
    async fn bring(&mut self, page: u64) {
        self.t.compute(self.job.params.fault_cycles).await;
        let bytes = self.job.params.page.0;
        self.copy(To::Device, page * bytes, bytes).await;
    }
}
