// What the adapters of media share: the text of `config`, errors, captured output, statistics, and
// the table of include/cxlab_medium.h. Header-only, C++17. Licensed like cxlab, under Apache-2.0 or
// MIT.
#ifndef CXLAB_ADAPTERS_MEDIUM_HPP
#define CXLAB_ADAPTERS_MEDIUM_HPP

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cxlab_medium.h"

namespace cxlab {

/// An error of the user: the text is what `cxlab run` prints after `config`.
struct ConfigError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The text of `config`: words `key=value`. A value with spaces is in double quotes.
class Settings {
  public:
    /// `allowed` has each key with what it is, for the message about an unknown one.
    ///
    /// Throws `ConfigError` for a word that is not `key=value`, an unknown key, or one given twice.
    Settings(const std::string &text, const std::map<std::string, std::string> &allowed)
        : allowed_(allowed) {
        size_t at = 0;
        while ((at = text.find_first_not_of(" \t\n", at)) != std::string::npos) {
            const size_t equals = text.find_first_of("= \t\n", at);
            if (equals == std::string::npos || text[equals] != '=' || equals == at) {
                refuse("the word `" + word(text, at) + "`");
            }
            const std::string key = text.substr(at, equals - at);
            std::string value;
            at = equals + 1;
            if (at < text.size() && text[at] == '"') {
                const size_t end = text.find('"', at + 1);
                if (end == std::string::npos) {
                    throw ConfigError("`" + key + "`: found no closing double quote");
                }
                value = text.substr(at + 1, end - at - 1);
                at = end + 1;
            } else {
                value = word(text, at);
                at += value.size();
            }
            if (allowed_.count(key) == 0) {
                refuse("the key `" + key + "`");
            }
            if (!values_.emplace(key, value).second) {
                throw ConfigError("found `" + key + "` twice");
            }
        }
    }

    /// The value of a key that must be there.
    std::string required(const std::string &key) const {
        const auto found = values_.find(key);
        if (found == values_.end() || found->second.empty()) {
            throw ConfigError("found no `" + key + "`; required: `" + key + "=" +
                              allowed_.at(key) + "`");
        }
        return found->second;
    }

    /// The value of a key, or a default.
    std::string text(const std::string &key, const std::string &otherwise) const {
        const auto found = values_.find(key);
        return found == values_.end() ? otherwise : found->second;
    }

    /// The value of a key as a number within bounds, or a default.
    uint64_t number(const std::string &key, uint64_t otherwise, uint64_t least,
                    uint64_t most) const {
        const auto found = values_.find(key);
        if (found == values_.end()) {
            return otherwise;
        }
        const std::string &value = found->second;
        const bool digits = !value.empty() && value.size() <= 18 &&
                            value.find_first_not_of("0123456789") == std::string::npos;
        const uint64_t number = digits ? std::stoull(value) : 0;
        if (!digits || number < least || number > most) {
            throw ConfigError("`" + key + "`: found `" + value + "`; allowed: " +
                              std::to_string(least) + " to " + std::to_string(most));
        }
        return number;
    }

  private:
    static std::string word(const std::string &text, size_t at) {
        return text.substr(at, text.find_first_of(" \t\n", at) - at);
    }

    [[noreturn]] void refuse(const std::string &what) const {
        std::string list;
        for (const auto &one : allowed_) {
            list += (list.empty() ? "`" : ", `") + one.first + "=" + one.second + "`";
        }
        throw ConfigError("found " + what + "; allowed: " + list);
    }

    std::map<std::string, std::string> allowed_;
    std::map<std::string, std::string> values_;
};

/// Captures `std::cout` and `std::cerr` while it lives. Both belong to the whole process, so one thread at a
/// time captures them.
class CapturedOutput {
  public:
    CapturedOutput() : out_(std::cout.rdbuf(text_.rdbuf())), err_(std::cerr.rdbuf(text_.rdbuf())) {}
    ~CapturedOutput() {
        std::cout.rdbuf(out_);
        std::cerr.rdbuf(err_);
    }
    CapturedOutput(const CapturedOutput &) = delete;
    CapturedOutput &operator=(const CapturedOutput &) = delete;

    /// What was written, on one line.
    std::string line() const {
        std::string line;
        for (const char c : text_.str()) {
            const char shown = c == '\n' || c == '\t' || c == '\r' ? ' ' : c;
            if (shown != ' ' || (!line.empty() && line.back() != ' ')) {
                line += shown;
            }
        }
        while (!line.empty() && line.back() == ' ') {
            line.pop_back();
        }
        return line;
    }

  private:
    static std::mutex &turns() {
        static std::mutex mutex;
        return mutex;
    }

    std::lock_guard<std::mutex> turn_{turns()};
    std::ostringstream text_;
    std::streambuf *out_;
    std::streambuf *err_;
};

using Statistics = std::vector<std::pair<std::string, double>>;

/// The functions of the interface for a class `Medium` with a constructor
/// `(const std::string &config, uint64_t capacity, uint64_t seed)` that throws on errors, and with
/// `granule`, `can_accept`, `enqueue`, `next_event`, `advance`, `begin_measurement` and
/// `statistics`. An exception of a function other than the constructor ends the process, because
/// the interface has no error there; `cxlab run` then reports the function, and the exception's
/// text is on standard error.
template <class Medium> class Export {
    struct Held {
        Medium medium;
        Statistics statistics;
    };

    template <class Call> static auto guarded(const char *function, Call call) -> decltype(call()) {
        try {
            return call();
        } catch (const std::exception &error) {
            std::fprintf(stderr, "error: `%s`: %s\n", function, error.what());
        } catch (...) {
            std::fprintf(stderr, "error: `%s`: unknown exception\n", function);
        }
        std::abort();
    }

    static Medium &of(void *held) { return static_cast<Held *>(held)->medium; }

    static void *create(const char *config, uint64_t capacity, uint64_t seed, char *error,
                        size_t error_bytes) {
        CapturedOutput output;
        std::string why;
        try {
            return new Held{Medium(config, capacity, seed), {}};
        } catch (const ConfigError &mistake) {
            why = mistake.what();
        } catch (const std::exception &mistake) {
            why = std::string("the simulator refuses it: ") + mistake.what();
            const std::string said = output.line();
            why += said.empty() ? "" : ": " + said;
        } catch (...) {
            why = "unknown exception: " + output.line();
        }
        std::snprintf(error, error_bytes, "%s", why.c_str());
        return nullptr;
    }

    static void destroy(void *held) {
        guarded("destroy", [&] { delete static_cast<Held *>(held); });
    }

    static uint32_t granule(void *held) {
        return guarded("granule", [&] { return of(held).granule(); });
    }

    static int can_accept(void *held, uint64_t now, int write) {
        return guarded("can_accept",
                       [&] { return of(held).can_accept(now, write != 0) ? 1 : 0; });
    }

    static void enqueue(void *held, uint64_t now, const cxlab_request *request) {
        guarded("enqueue", [&] { of(held).enqueue(now, *request); });
    }

    static uint64_t next_event(void *held) {
        return guarded("next_event", [&] { return of(held).next_event(); });
    }

    static size_t advance(void *held, uint64_t now, cxlab_completion *done, size_t room) {
        return guarded("advance", [&] { return of(held).advance(now, done, room); });
    }

    static int statistic(void *held, size_t number, const char **name, double *value) {
        return guarded("statistic", [&] {
            Statistics &list = static_cast<Held *>(held)->statistics;
            if (number == 0) {
                list = of(held).statistics();
            }
            if (number >= list.size()) {
                return 0;
            }
            *name = list[number].first.c_str();
            *value = list[number].second;
            return 1;
        });
    }

    static void begin_measurement(void *held, uint64_t now) {
        guarded("begin_measurement", [&] { of(held).begin_measurement(now); });
    }

  public:
    static const cxlab_medium_table *table() {
        static const cxlab_medium_table table = {
            CXLAB_MEDIUM_ABI, sizeof(cxlab_medium_table),
            create, destroy, granule, can_accept, enqueue, next_event, advance, statistic,
            begin_measurement,
        };
        return &table;
    }
};

} // namespace cxlab

/// Exports the class as the medium of this library.
#define CXLAB_EXPORT_MEDIUM(MEDIUM)                                                                \
    extern "C" __attribute__((visibility("default"))) const cxlab_medium_table *cxlab_medium() {   \
        return cxlab::Export<MEDIUM>::table();                                                     \
    }

#endif
