#include "web/head.h"

#include <gtest/gtest.h>

#include "web/request.h"

namespace tandem::web {
namespace {

int status_of(std::string_view raw) {
  const auto checked = check_head(raw);
  const Reply* refusal = std::get_if<Reply>(&checked);
  return refusal ? refusal->status : 200;
}

Head head_of(std::string_view raw) {
  auto checked = check_head(raw);
  EXPECT_TRUE(std::holds_alternative<Head>(checked)) << raw;
  return std::holds_alternative<Head>(checked) ? std::get<Head>(checked) : Head{};
}

TEST(Head, PassesOnOnlyWhatTheApiReads) {
  const Head head = head_of(
      "GET /metrics?a=b HTTP/1.1\r\nHost:  localhost \r\nRange: bytes=0-1\r\n"
      "Accept-Encoding: gzip, br\r\nLAST-EVENT-ID: 7\r\nCookie: a\r\n\r\n");
  EXPECT_EQ(head.text, "GET /metrics?a=b HTTP/1.1\r\nhost: localhost\r\nlast-event-id: 7\r\n\r\n");
  EXPECT_EQ(head.body_bytes, 0u);
}

TEST(Head, KeepsPercentSignsFromBeingDecoded) {
  const Head head = head_of("GET / HTTP/1.1\r\nAuthorization: Bearer a%41\r\n\r\n");
  EXPECT_NE(head.text.find("Bearer a%2541\r\n"), std::string::npos);
}

TEST(Head, ClosesForHttp10AndWhenAskedTo) {
  EXPECT_NE(head_of("GET / HTTP/1.0\r\n\r\n").text.find("Connection: close"), std::string::npos);
  EXPECT_NE(head_of("GET / HTTP/1.1\r\nConnection: Close\r\n\r\n").text.find("Connection: close"),
            std::string::npos);
  EXPECT_EQ(head_of("GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").text.find("Connection"),
            std::string::npos);
}

TEST(Head, ReadsHowLongTheBodyIs) {
  const Head head =
      head_of("POST / HTTP/1.1\r\ncontent-length: 12\r\nExpect: 100-Continue\r\n\r\n");
  EXPECT_EQ(head.body_bytes, 12u);
  EXPECT_EQ(head.expectation, Expectation::kContinue);
  EXPECT_EQ(head_of("POST / HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n").body_bytes,
            kMostBodyBytes);
}

TEST(Head, RefusesBodiesThatAreTooLargeOrWithoutALength) {
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n"), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 411);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length:\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400);
}

TEST(Head, RefusesWhatIsNotARequest) {
  for (const std::string_view raw :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n", "GET http://a/ HTTP/1.1\r\n\r\n", "GET /a b HTTP/1.1\r\n\r\n",
        "G\x01T / HTTP/1.1\r\n\r\n", "GET /\x7f HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET / HTTP/1.1\r\nName : v\r\n\r\n",
        "GET / HTTP/1.1\r\n: v\r\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\nHost: evil\r\n\r\n", "GET / HTTP/1.1\r\nA: \x01\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"}) {
    EXPECT_EQ(status_of(raw), 400) << raw;
  }
  EXPECT_EQ(status_of(std::string("GET /\0 HTTP/1.1\r\n\r\n", 19)), 400);
  EXPECT_EQ(status_of("BREW /pot HTTP/1.1\r\n\r\n"), 501);
  EXPECT_EQ(status_of("GET /" + std::string(kMostTargetBytes, 'a') + " HTTP/1.1\r\n\r\n"), 414);
}

}  // namespace
}  // namespace tandem::web
