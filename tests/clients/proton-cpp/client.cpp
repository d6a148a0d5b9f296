// Scenarios with Proton C++ (Debian's libqpid-proton-cpp12-dev); see ../README.md.
//
// Its API shows a delivery's state but not the state's fields, so `outcomes` compares states only.

#include <proton/connection.hpp>
#include <proton/connection_options.hpp>
#include <proton/container.hpp>
#include <proton/delivery.hpp>
#include <proton/error_condition.hpp>
#include <proton/message.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver.hpp>
#include <proton/receiver_options.hpp>
#include <proton/reconnect_options.hpp>
#include <proton/sender.hpp>
#include <proton/sender_options.hpp>
#include <proton/source.hpp>
#include <proton/source_options.hpp>
#include <proton/target_options.hpp>
#include <proton/tracker.hpp>
#include <proton/transport.hpp>
#include <proton/types.hpp>
#include <proton/work_queue.hpp>

#include <cctype>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

proton::binary body_of(uint64_t i) {
    size_t size = (i * 37) % 1024;
    switch (i % 50) {
        case 0: size = 65536; break;
        case 1: size = 20000; break;
        case 2: size = 0; break;
    }
    proton::binary body(size);
    for (size_t j = 0; j < size; j++) body[j] = static_cast<uint8_t>(i + j);
    return body;
}

proton::message message_of(uint64_t i) {
    proton::message message;
    message.id(i);
    message.body(body_of(i));
    message.inferred(true);  // binary becomes a data section
    return message;
}

/// One connection; ends by passed() or failed().
class scenario : public proton::messaging_handler {
  public:
    scenario(std::string url, std::string address) : url_(url), address_(address) {}

    bool ok() const { return ok_; }

    std::string verdict() const { return over_ ? verdict_ : "it ended without a verdict"; }

    void on_container_start(proton::container& container) override {
        proton::connection_options options;
        options.sasl_allowed_mechs("ANONYMOUS").max_frame_size(4096).idle_timeout(proton::duration(20000));
        connection_ = container.connect(url_, options);
        tick();
    }

    void on_error(const proton::error_condition& error) override { failed(error.what()); }

  protected:
    virtual std::string progress() const = 0;

    void passed(const std::string& how) { finish(true, how); }

    void failed(const std::string& why) { finish(false, why); }

    template <typename... Words> void check(bool condition, const Words&... words) {
        if (condition) return;
        std::ostringstream text;
        (text << ... << words);
        failed(text.str());
    }

    std::string url_, address_;
    proton::connection connection_;

  private:
    /// A container runs as long as something is scheduled, and that can't be cancelled: so, in small steps.
    void tick() {
        if (++ticks_ == 600) failed("time is over: " + progress());
        if (!over_) connection_.container().schedule(proton::duration(100), [this] { tick(); });
    }

    void finish(bool ok, const std::string& text) {
        if (over_) return;
        over_ = true;
        ok_ = ok;
        verdict_ = text;
        connection_.close();
    }

    bool over_ = false, ok_ = false;
    int ticks_ = 0;
    std::string verdict_;
};

/// `count` messages from a sender to a receiver.
class transfer : public scenario {
  public:
    transfer(std::string url, std::string address, uint64_t count, bool settled)
        : scenario(url, address), count_(count), is_settled_(settled) {}

    void on_connection_open(proton::connection& connection) override {
        auto mode = is_settled_ ? proton::delivery_mode::AT_MOST_ONCE : proton::delivery_mode::AT_LEAST_ONCE;
        receiver_ = connection.open_receiver(
            address_, proton::receiver_options().credit_window(100).delivery_mode(mode));
    }

    void on_receiver_open(proton::receiver& receiver) override {
        auto mode = is_settled_ ? proton::delivery_mode::AT_MOST_ONCE : proton::delivery_mode::AT_LEAST_ONCE;
        receiver.connection().open_sender(address_, proton::sender_options().delivery_mode(mode));
    }

    void on_sendable(proton::sender& sender) override {
        while (sender.credit() > 0 && sent_ < count_) sender.send(message_of(sent_++));
    }

    void on_message(proton::delivery& delivery, proton::message& message) override {
        auto id = proton::get<uint64_t>(message.id());
        check(id == received_, "message ", id, " instead of ", received_);
        check(proton::get<proton::binary>(message.body()) == body_of(received_), "the body of message ", id,
              " is wrong");
        check(delivery.settled() == is_settled_, "settled is ", delivery.settled());
        received_++;
        look();
    }

    void on_tracker_accept(proton::tracker&) override { accepted_++; }
    void on_tracker_reject(proton::tracker&) override { failed("rejected"); }
    void on_tracker_release(proton::tracker&) override { failed("released or modified"); }

    void on_tracker_settle(proton::tracker&) override {
        settled_++;
        look();
    }

  protected:
    std::string progress() const override {
        std::ostringstream text;
        text << "sent " << sent_ << " received " << received_ << " accepted " << accepted_ << " settled " << settled_;
        return text.str();
    }

  private:
    void look() {
        uint64_t wanted = is_settled_ ? 0 : count_;
        if (received_ == count_ && accepted_ == wanted && settled_ == wanted) passed(progress());
    }

    uint64_t count_, sent_ = 0, received_ = 0, accepted_ = 0, settled_ = 0;
    bool is_settled_;
    proton::receiver receiver_;
};

/// One message at a time: Proton tells the outcomes of several in any order.
class outcomes : public scenario {
  public:
    using scenario::scenario;

    void on_connection_open(proton::connection& connection) override {
        connection.open_receiver(address_, proton::receiver_options().credit_window(10).auto_accept(false));
    }

    void on_receiver_open(proton::receiver& receiver) override { receiver.connection().open_sender(address_); }

    void on_sendable(proton::sender& sender) override {
        if (sent_ == 0) sender.send(message_of(3 + sent_++));
    }

    void on_message(proton::delivery& delivery, proton::message&) override {
        switch (answered_++) {
            case 0: delivery.accept(); break;
            case 1: delivery.reject(); break;
            case 2: delivery.release(); break;
            default: delivery.modify(); break;
        }
    }

    void on_tracker_settle(proton::tracker& tracker) override {
        static const enum proton::transfer::state wanted[] = {proton::transfer::ACCEPTED, proton::transfer::REJECTED,
                                                            proton::transfer::RELEASED, proton::transfer::MODIFIED};
        check(tracker.state() == wanted[heard_], "outcome ", heard_, " is ", tracker.state());
        if (++heard_ == 4) passed("four outcomes");
        else tracker.sender().send(message_of(3 + sent_++));
    }

  protected:
    std::string progress() const override {
        return "answered " + std::to_string(answered_) + " heard " + std::to_string(heard_);
    }

  private:
    int sent_ = 0, answered_ = 0, heard_ = 0;
};

/// A server answers over an anonymous sender; the client's replies come to a dynamic address.
class request : public scenario {
  public:
    using scenario::scenario;

    void on_connection_open(proton::connection& connection) override {
        answers_ = connection.open_sender("", proton::sender_options().target(proton::target_options().anonymous(true)));
        server_ = connection.open_receiver(address_);
    }

    void on_receiver_open(proton::receiver& receiver) override {
        if (receiver == server_) {
            inbox_ = receiver.connection().open_receiver(
                "", proton::receiver_options().source(proton::source_options().dynamic(true)));
        } else {
            reply_to_ = receiver.source().address();
            check(!reply_to_.empty(), "a dynamic source without an address");
            requests_ = receiver.connection().open_sender(address_);
        }
    }

    void on_sendable(proton::sender& sender) override {
        if (sender == requests_ && asked_ == 0) ask();
    }

    void on_message(proton::delivery& delivery, proton::message& message) override {
        auto text = proton::get<std::string>(message.body());
        if (delivery.receiver() == server_) {
            proton::message reply;
            reply.to(message.reply_to());
            reply.correlation_id(message.id());
            for (auto& letter : text) letter = static_cast<char>(std::toupper(letter));
            reply.body(text);
            answers_.send(reply);
            return;
        }
        check(proton::get<uint64_t>(message.correlation_id()) == asked_ - 1, "a reply out of order");
        check(text == "QUESTION", "body ", text);
        if (asked_ == 100) passed("100 replies");
        else ask();
    }

    void on_tracker_reject(proton::tracker&) override { failed("rejected"); }
    void on_tracker_release(proton::tracker&) override { failed("released or modified"); }

  protected:
    std::string progress() const override { return "asked " + std::to_string(asked_); }

  private:
    void ask() {
        proton::message question(std::string("question"));
        question.id(asked_++);
        question.reply_to(reply_to_);
        requests_.send(question);
    }

    proton::receiver server_, inbox_;
    proton::sender requests_, answers_;
    std::string reply_to_;
    uint64_t asked_ = 0;
};

class drain : public scenario {
  public:
    using scenario::scenario;

    void on_connection_open(proton::connection& connection) override {
        receiver_ = connection.open_receiver(address_, proton::receiver_options().credit_window(0));
    }

    void on_receiver_open(proton::receiver& receiver) override {
        receiver.add_credit(7);
        receiver.drain();
    }

    void on_receiver_drain_finish(proton::receiver& receiver) override {
        check(receiver.credit() == 0, receiver.credit(), " credits are left");
        if (received_ == 0) {
            receiver.add_credit(5);
            sender_ = receiver.connection().open_sender(address_);
        } else {
            limit_ = 6;
            receiver.add_credit(1);
            send();
        }
    }

    void on_sendable(proton::sender&) override { send(); }

    void on_message(proton::delivery&, proton::message& message) override {
        check(proton::get<uint64_t>(message.id()) == received_, "a message out of order");
        received_++;
        if (received_ == 5) {
            receiver_.add_credit(4);
            receiver_.drain();
        } else if (received_ == 6) {
            passed("drained twice");
        }
    }

  protected:
    std::string progress() const override {
        return "sent " + std::to_string(sent_) + " received " + std::to_string(received_);
    }

  private:
    void send() {
        while (sender_ && sender_.credit() > 0 && sent_ < limit_) sender_.send(message_of(sent_++));
    }

    proton::receiver receiver_;
    proton::sender sender_;
    uint64_t sent_ = 0, received_ = 0, limit_ = 5;
};

std::unique_ptr<scenario> make(const std::string& name, const std::string& url, const std::string& address) {
    if (name == "transfer") return std::make_unique<transfer>(url, address, 10000, false);
    if (name == "presettled") return std::make_unique<transfer>(url, address, 1000, true);
    if (name == "outcomes") return std::make_unique<outcomes>(url, address);
    if (name == "request") return std::make_unique<request>(url, address);
    if (name == "drain") return std::make_unique<drain>(url, address);
    return nullptr;
}

}  // namespace

int main(int count, char** words) {
    auto what = count == 5 ? make(words[1], std::string("amqp://") + words[2] + ":" + words[3], words[4]) : nullptr;
    if (!what) {
        std::cout << "FAIL usage: client SCENARIO HOST PORT ADDRESS" << std::endl;
        return 2;
    }
    try {
        proton::container(*what).run();
    } catch (const std::exception& error) {
        std::cout << "FAIL " << error.what() << std::endl;
        return 1;
    }
    std::cout << (what->ok() ? "PASS " : "FAIL ") << what->verdict() << std::endl;
    return what->ok() ? 0 : 1;
}
