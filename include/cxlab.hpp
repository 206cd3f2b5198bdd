// cxlab under another simulator, in C++17: the interface of cxlab.h with owners. Header only.
//
// No function throws. Those that can fail return a Status, which is true when they did what they were asked for.
// Errors and threads: see cxlab.h. Licensed like cxlab, under Apache-2.0 or MIT.
#ifndef CXLAB_HPP
#define CXLAB_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cxlab.h"

namespace cxlab {

// What a function did: CXLAB_OK or an error code.
class [[nodiscard]] Status {
public:
    Status() noexcept = default;
    explicit Status(std::int32_t code) noexcept : code_(code) {}

    explicit operator bool() const noexcept { return code_ == CXLAB_OK; }
    std::int32_t code() const noexcept { return code_; }
    // The text of the calling thread's last error: to be read before another call fails.
    const char *text() const noexcept { return code_ == CXLAB_OK ? "" : cxlab_last_error(); }

private:
    std::int32_t code_ = CXLAB_OK;
};

using Completed = cxlab_completed;
using PortInfo = cxlab_port_info;
using Snoop = cxlab_snoop;

// What a system is made of: one of path() and text(), and changes.
class Options {
public:
    // A scenario file.
    Options &path(std::string path) {
        path_ = std::move(path);
        has_path_ = true;
        return *this;
    }
    // The text of a scenario, and the folder of relative paths in it.
    Options &text(std::string text, std::string folder = "") {
        text_ = std::move(text);
        folder_ = std::move(folder);
        has_text_ = true;
        return *this;
    }
    // A change, `path.to.key=value`.
    Options &set(std::string change) {
        set_.push_back(std::move(change));
        return *this;
    }
    Options &seed(std::uint64_t seed) {
        seed_ = seed;
        has_seed_ = true;
        return *this;
    }

    // A system that can be saved and restored.
    Options &can_save() {
        can_save_ = true;
        return *this;
    }

private:
    friend class System;

    std::string path_, text_, folder_;
    std::vector<std::string> set_;
    std::uint64_t seed_ = 0;
    bool has_path_ = false, has_text_ = false, has_seed_ = false, can_save_ = false;
};

// A port of a system. It does not own the system, and is refused after the system's end.
class Port {
public:
    Port() noexcept = default;

    std::uint32_t number() const noexcept { return number_; }

    // Limits and memory; zeros where there is no port.
    PortInfo info() const noexcept {
        PortInfo info{};
        (void)cxlab_get_port_info(system_, number_, &info);
        return info;
    }
    // Number of requests that the port takes now.
    std::uint32_t room() const noexcept {
        std::uint32_t room = 0;
        (void)cxlab_can_accept(system_, number_, &room);
        return room;
    }
    Status submit(std::uint64_t id, std::uint64_t address, std::uint64_t size, bool write,
                  std::uint64_t time) noexcept {
        const std::uint32_t kind = write ? CXLAB_WRITE : CXLAB_READ;
        return Status(cxlab_submit(system_, number_, id, address, size, kind, time));
    }
    // Caches of the program give changed lines up. The scenario has `snooped = true`.
    Status write_back(std::uint64_t id, std::uint64_t address, std::uint64_t size,
                      std::uint64_t time) noexcept {
        return Status(cxlab_submit(system_, number_, id, address, size, CXLAB_WRITE_BACK, time));
    }
    // Answers a snoop of the program's caches.
    Status answer(const Snoop &snoop, bool changed, std::uint64_t time) noexcept {
        return Status(cxlab_answer_snoop(system_, number_, snoop.id, changed, time));
    }
    Status close() noexcept { return Status(cxlab_close_port(system_, number_)); }
    Status read(std::uint64_t address, void *bytes, std::size_t size) const noexcept {
        return Status(cxlab_read(system_, number_, address, bytes, size));
    }
    Status write(std::uint64_t address, const void *bytes, std::size_t size) noexcept {
        return Status(cxlab_write(system_, number_, address, bytes, size));
    }

private:
    friend class System;
    Port(cxlab_system system, std::uint32_t number) noexcept : system_(system), number_(number) {}

    cxlab_system system_ = 0;
    std::uint32_t number_ = 0;
};

// A system, destroyed with its owner.
class System {
public:
    System() noexcept = default;
    ~System() { reset(); }
    System(System &&other) noexcept
        : handle_(std::exchange(other.handle_, 0)), callback_(std::move(other.callback_)) {}
    System &operator=(System &&other) noexcept {
        if (this != &other) {
            reset();
            handle_ = std::exchange(other.handle_, 0);
            callback_ = std::move(other.callback_);
        }
        return *this;
    }
    System(const System &) = delete;
    System &operator=(const System &) = delete;

    // Makes the system of a scenario, in place of the one before.
    Status open(const Options &options) {
        reset();
        std::vector<const char *> set;
        for (const std::string &change : options.set_) {
            set.push_back(change.c_str());
        }
        cxlab_options given{};
        given.bytes = sizeof given;
        given.path = options.has_path_ ? options.path_.c_str() : nullptr;
        given.text = options.has_text_ ? options.text_.c_str() : nullptr;
        given.folder = options.folder_.c_str();
        given.set = set.data();
        given.set_count = set.size();
        given.seed = options.has_seed_ ? &options.seed_ : nullptr;
        given.can_save = options.can_save_ ? 1 : 0;
        return Status(cxlab_create(&given, &handle_));
    }
    // Ends the system.
    void reset() noexcept {
        if (handle_ != 0) {
            (void)cxlab_destroy(std::exchange(handle_, 0));
        }
        callback_.reset();
    }

    cxlab_system handle() const noexcept { return handle_; }

    Status find_port(const char *name, Port &port) const noexcept {
        std::uint32_t number = 0;
        const Status status(cxlab_find_port(handle_, name, &number));
        if (status) {
            port = Port(handle_, number);
        }
        return status;
    }
    std::uint32_t port_count() const noexcept {
        std::uint32_t count = 0;
        (void)cxlab_port_count(handle_, &count);
        return count;
    }
    Port port(std::uint32_t number) const noexcept { return Port(handle_, number); }

    // Calls a function with each request that completes. It must not throw and must not use the system.
    Status on_completed(std::function<void(const Completed &)> function) {
        auto callback = std::make_unique<std::function<void(const Completed &)>>(std::move(function));
        const Status status(cxlab_set_callback(handle_, &System::call, callback.get()));
        if (status) {
            callback_ = std::move(callback);
        }
        return status;
    }
    // The next completed request, where no function is called with it; false if there is none.
    bool take(Completed &completed) noexcept {
        std::size_t count = 0;
        return cxlab_take_completed(handle_, &completed, 1, &count) == CXLAB_OK && count == 1;
    }

    // The next snoop of the program's caches; false if there is none.
    bool take(Snoop &snoop) noexcept {
        std::size_t count = 0;
        return cxlab_take_snoops(handle_, &snoop, 1, &count) == CXLAB_OK && count == 1;
    }

    std::uint64_t now() const noexcept {
        std::uint64_t time = 0;
        (void)cxlab_now(handle_, &time);
        return time;
    }
    // CXLAB_NO_EVENT if no event is pending.
    std::uint64_t next_event() const noexcept {
        std::uint64_t time = CXLAB_NO_EVENT;
        (void)cxlab_next_event(handle_, &time);
        return time;
    }
    Status advance(std::uint64_t time) noexcept { return Status(cxlab_advance(handle_, time)); }
    Status drain() noexcept { return Status(cxlab_drain(handle_)); }

    Status begin_measurement() noexcept { return Status(cxlab_begin_measurement(handle_)); }
    Status statistic(const char *path, double &value) const noexcept {
        return Status(cxlab_statistic(handle_, path, &value));
    }
    // The report as JSON.
    Status report(std::string &text) const {
        std::size_t length = 0;
        Status status(cxlab_report(handle_, nullptr, 0, &length));
        if (status.code() != CXLAB_ERROR_SPACE) {
            return status;
        }
        text.resize(length + 1);
        status = Status(cxlab_report(handle_, text.data(), text.size(), &length));
        text.resize(status ? length : 0);
        return status;
    }
    std::uint64_t digest() const noexcept {
        std::uint64_t digest = 0;
        (void)cxlab_digest(handle_, &digest);
        return digest;
    }
    Status save(const char *path) const noexcept { return Status(cxlab_save(handle_, path)); }
    Status restore(const char *path) noexcept { return Status(cxlab_restore(handle_, path)); }

private:
    static void call(void *context, const Completed *completed) {
        (*static_cast<std::function<void(const Completed &)> *>(context))(*completed);
    }

    cxlab_system handle_ = 0;
    std::unique_ptr<std::function<void(const Completed &)>> callback_;
};

}  // namespace cxlab

#endif
