#include "web/event_hub.h"

#include <gtest/gtest.h>

#include <thread>

#include "web/event_parser.h"

namespace tandem::web {
namespace {

using namespace std::chrono_literals;
using Outcome = EventHub::Outcome;

EventHub::Next read_now(EventHub::Subscription& subscription) {
  return subscription.reader->next(std::chrono::steady_clock::now(), {});
}

// The events that the subscription can read without waiting.
std::vector<StreamEvent> read_all(EventHub::Subscription& subscription) {
  EventParser parser;
  std::vector<StreamEvent> all = parser.feed(subscription.greeting);
  for (EventHub::Next next = read_now(subscription); next.outcome == Outcome::kEvents;
       next = read_now(subscription)) {
    for (StreamEvent& event : parser.feed(next.text)) all.push_back(std::move(event));
  }
  return all;
}

TEST(EventHub, AReaderGetsWhatComesAfterIt) {
  EventHub hub;
  hub.publish("{\"a\":1}");
  auto subscription = hub.subscribe({});
  ASSERT_TRUE(subscription);
  EXPECT_EQ(read_now(*subscription).outcome, Outcome::kQuiet);
  EXPECT_EQ(hub.publish("{\"a\":2}"), 2u);
  EXPECT_EQ(read_now(*subscription).text, "id: 2\ndata: {\"a\":2}\n\n");
}

TEST(EventHub, GoesOnBehindTheLastEvent) {
  EventHub hub;
  for (int i = 1; i <= 5; ++i) hub.publish(std::to_string(i));
  auto subscription = hub.subscribe({.id = 3});
  const std::vector<StreamEvent> events = read_all(*subscription);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].data, "4");
  EXPECT_EQ(events[0].id, 4u);
  auto none_missed = hub.subscribe({.id = 5});
  EXPECT_TRUE(read_all(*none_missed).empty());
}

TEST(EventHub, SaysWhenEventsWereLost) {
  EventHub hub;
  for (std::size_t i = 1; i <= EventHub::kKept + 10; ++i) hub.publish(std::to_string(i));
  auto in_time = hub.subscribe({.id = 10});
  EXPECT_EQ(read_all(*in_time).size(), EventHub::kKept);
  auto late = hub.subscribe({.id = 9});
  const std::vector<StreamEvent> events = read_all(*late);
  ASSERT_EQ(events.size(), EventHub::kKept + 1);
  EXPECT_EQ(events[0].kind, "missed");
  EXPECT_EQ(events[1].data, "11");
}

TEST(EventHub, AnIdOfAnEarlierMasterCountsAsLost) {
  EventHub hub;
  hub.publish("1");
  auto subscription = hub.subscribe({.id = 4711});
  const std::vector<StreamEvent> events = read_all(*subscription);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, "missed");
  EXPECT_EQ(events[1].data, "1");
  auto largest = hub.subscribe({.id = UINT64_MAX});
  EXPECT_EQ(read_all(*largest).size(), 2u);
}

TEST(EventHub, AReaderThatFallsBehindIsToldAndHoldsNobodyUp) {
  EventHub hub;
  auto slow = hub.subscribe({});
  for (std::size_t i = 0; i <= EventHub::kKept; ++i) hub.publish("x");
  EXPECT_EQ(read_now(*slow).outcome, Outcome::kOvertaken);
}

TEST(EventHub, HandsOverManyEventsInPieces) {
  EventHub hub;
  auto subscription = hub.subscribe({});
  for (int i = 0; i < 100; ++i) hub.publish(std::string(10000, 'x'));
  EXPECT_LT(read_now(*subscription).text.size(), 100000u);
  EXPECT_GT(read_all(*subscription).size(), 80u);
}

TEST(EventHub, KeepsLineBreaksInsideOneEvent) {
  EventHub hub;
  auto subscription = hub.subscribe({});
  hub.publish("{\n\"a\": 1}");
  const std::vector<StreamEvent> events = read_all(*subscription);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].data, "{\n\"a\": 1}");
}

TEST(EventHub, TakesSoManyReadersAndFreesTheirPlaces) {
  EventHub hub;
  std::vector<EventHub::Subscription> readers;
  for (std::size_t i = 0; i < EventHub::kMostReaders; ++i) readers.push_back(*hub.subscribe({}));
  EXPECT_FALSE(hub.subscribe({}));
  readers.pop_back();
  EXPECT_EQ(hub.readers(), EventHub::kMostReaders - 1);
  EXPECT_TRUE(hub.subscribe({}));
}

TEST(EventHub, AStopWakesAReaderThatWaits) {
  EventHub hub;
  auto subscription = hub.subscribe({});
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  EXPECT_EQ(subscription->reader->next(deadline, stop.get_token()).outcome, Outcome::kStopped);
}

TEST(EventHub, AnEventWakesAReaderThatWaits) {
  EventHub hub;
  auto subscription = hub.subscribe({});
  std::jthread publisher([&] { hub.publish("1"); });
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  EXPECT_EQ(subscription->reader->next(deadline, {}).outcome, Outcome::kEvents);
}

TEST(EventParser, ReadsPiecesOfAnySize) {
  const std::string text = ": hi\r\n\r\nid: 7\nevent: missed\ndata: a\ndata:b\n\ndata\n\nid: x\n\n";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    EventParser parser;
    std::vector<StreamEvent> events;
    for (std::size_t at = 0; at < text.size(); at += piece)
      for (StreamEvent& event : parser.feed(text.substr(at, piece))) events.push_back(event);
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].id, 7u);
    EXPECT_EQ(events[0].kind, "missed");
    EXPECT_EQ(events[0].data, "a\nb");
    EXPECT_EQ(events[1].data, "");
  }
}

}  // namespace
}  // namespace tandem::web
