#include "web/api.h"

#include <gtest/gtest.h>

#include "web/openapi.h"
#include "web/routes.h"
#include "web/testing.h"

namespace tandem::web {
namespace {

using nlohmann::json;

class ApiTest : public ::testing::Test {
 protected:
  Reply get(const std::string& path, Query query = {}) {
    return api_.handle({.method = "GET",
                        .path = path,
                        .query = std::move(query),
                        .headers = {{"host", "localhost"}},
                        .peer = Peer::kLoopback});
  }
  Reply post(const std::string& path, const std::string& body,
             const std::string& type = "application/json") {
    return api_.handle(
        {.method = "POST",
         .path = path,
         .headers = {{"authorization", "Bearer " + std::string(kToken)}, {"content-type", type}},
         .body = body});
  }

  MemoryBackend backend_;
  Api api_{backend_, {.token = std::string(kToken)}};
};

json error_of(const Reply& reply) {
  return json::parse(reply.body).at("error");
}

std::string message_of(const Reply& reply) {
  const json error = error_of(reply);
  EXPECT_TRUE(error.at("code").is_string());
  EXPECT_TRUE(error.at("hint").is_string());
  return error.at("message");
}

TEST_F(ApiTest, EveryReadAnswers) {
  EXPECT_EQ(json::parse(get("/api/v1/jobs").body).at("jobs").size(), 1u);
  EXPECT_EQ(json::parse(get("/api/v1/jobs/digits-1").body).at("id"), "digits-1");
  EXPECT_EQ(json::parse(get("/api/v1/jobs/digits-1/report").body).at("did"), "report");
  EXPECT_EQ(json::parse(get("/api/v1/nodes").body).at("nodes").size(), 0u);
  EXPECT_EQ(json::parse(get("/healthz").body).at("status"), "ok");
  const Reply metrics = get("/metrics");
  EXPECT_EQ(metrics.body, "tandem_jobs 1\n");
  EXPECT_TRUE(metrics.content_type.starts_with("text/plain; version=0.0.4"));
  EXPECT_EQ(get("/openapi.yaml").body, openapi_yaml());
}

TEST_F(ApiTest, LogsAndMetricsSayWhereToGoOn) {
  const json logs = json::parse(get("/api/v1/jobs/digits-1/logs", {{"offset", "6"}}).body);
  EXPECT_EQ(logs, (json{{"text", "world\n"}, {"next_offset", 12}, {"ended", true}}));
  const json metrics = json::parse(get("/api/v1/jobs/digits-1/metrics", {{"offset", "22"}}).body);
  EXPECT_EQ(metrics.at("next_offset"), 33);
}

TEST_F(ApiTest, APartOfALogDoesNotCutACharacter) {
  backend_.log = "1234567\u00e4!";  // The part ends inside the ä.
  const json first = json::parse(get("/api/v1/jobs/digits-1/logs").body);
  EXPECT_EQ(first.at("text"), "1234567");
  EXPECT_EQ(first.at("next_offset"), 7);
  const json second = json::parse(get("/api/v1/jobs/digits-1/logs", {{"offset", "7"}}).body);
  EXPECT_EQ(second.at("text"), "\u00e4!");
}

TEST_F(ApiTest, BytesThatAreNoTextStillMakeJson) {
  backend_.log = "\xff\xfe\x80";
  EXPECT_EQ(json::parse(get("/api/v1/jobs/digits-1/logs").body).at("next_offset"), 3);
  EXPECT_EQ(get("/\xff\xfe").status, 404);
  EXPECT_FALSE(json::parse(get("/\xff\xfe").body).is_discarded());
}

TEST_F(ApiTest, PostsReachTheBackend) {
  const Reply submitted = post("/api/v1/jobs",
                               R"({"job": "name = 'a'", "overrides": ["train.epochs=3"],
                                   "priority": -2, "base_directory": "/data"})");
  EXPECT_EQ(submitted.status, 201) << submitted.body;
  EXPECT_EQ(backend_.submitted.job_toml, "name = 'a'");
  EXPECT_EQ(backend_.submitted.overrides, std::vector<std::string>{"train.epochs=3"});
  EXPECT_EQ(backend_.submitted.priority, -2);
  EXPECT_EQ(backend_.submitted.base_directory, "/data");
  EXPECT_EQ(post("/api/v1/jobs/digits-1/cancel", "").status, 200);
  EXPECT_EQ(post("/api/v1/jobs/digits-1/resume", "").status, 200);
  EXPECT_EQ(post("/api/v1/jobs/digits-1/resume", R"({"step": 40})").status, 200);
  EXPECT_EQ(
      post("/api/v1/jobs/digits-1/resize", R"({"workers": 3})", "application/json; charset=utf-8")
          .status,
      200);
  EXPECT_EQ(backend_.calls(), (std::vector<std::string>{"submit /data -2", "cancel",
                                                        "resume newest", "resume 40", "resize 3"}));
}

TEST_F(ApiTest, WrongBodiesNameTheFieldAndWhatWasExpected) {
  const auto complaint = [&](const std::string& body) {
    const Reply reply = post("/api/v1/jobs", body);
    EXPECT_EQ(reply.status, 400) << body;
    return message_of(reply);
  };
  EXPECT_EQ(complaint("{"), "the body is not JSON: byte 2 of 1");
  EXPECT_EQ(complaint("[]"), "the body is a JSON array; an object was expected");
  EXPECT_EQ(complaint(""), "`job` is missing; the text of a job file was expected");
  EXPECT_EQ(complaint(R"({"job": 3})"), "`job` is a number; a string was expected");
  EXPECT_EQ(complaint(R"({"job": "a", "overides": []})"),
            "unknown field `overides`; did you mean `overrides`?");
  EXPECT_EQ(complaint(R"({"job": "a", "overrides": ["x=1", 2]})"),
            "`overrides[1]` is a number; an array of strings like \"train.epochs=3\" was expected");
  EXPECT_EQ(complaint(R"({"job": "a", "overrides": "x"})"),
            "`overrides` is a string; an array of strings like \"train.epochs=3\" was expected");
  EXPECT_EQ(complaint(R"({"job": "a", "priority": 1.5})"),
            "`priority` is a number; an integer from -1000 to 1000 was expected");
  EXPECT_EQ(complaint(R"({"job": "a", "priority": 18446744073709551615})"),
            "`priority` is 18446744073709551615; an integer from -1000 to 1000 was expected");
  EXPECT_EQ(complaint(R"({"job": "a", "base_directory": "here"})"),
            "`base_directory` is \"here\"; an absolute path was expected");
  complaint(std::string(1 << 20, '['));
  complaint("{\"job\": \"\xff\"}");

  EXPECT_EQ(message_of(post("/api/v1/jobs/digits-1/resize", "{}")),
            "`workers` is missing; the number of workers or of `servers` was expected");
  EXPECT_EQ(post("/api/v1/jobs/digits-1/resize", R"({"workers": 0})").status, 400);
  EXPECT_EQ(post("/api/v1/jobs/digits-1/resize", R"({"servers": 0})").status, 400);
  EXPECT_EQ(post("/api/v1/jobs/digits-1/resume", R"({"step": -1})").status, 400);
  EXPECT_EQ(post("/api/v1/jobs/digits-1/cancel", R"({"step": 1})").status, 400);
  EXPECT_TRUE(backend_.calls().empty());
}

TEST_F(ApiTest, WhatTheStateOfAJobDoesNotAllowIsAConflict) {
  backend_.job_has_ended = true;
  for (const auto& [change, body] : {std::pair("cancel", "{}"), std::pair("resume", "{}"),
                                     std::pair("resize", R"({"workers": 2})")}) {
    const Reply reply = post(std::string("/api/v1/jobs/digits-1/") + change, body);
    EXPECT_EQ(reply.status, 409) << change;
    EXPECT_EQ(error_of(reply).at("code"), "conflict");
    EXPECT_EQ(message_of(reply), "it has ended already");
  }
  EXPECT_EQ(post("/api/v1/jobs/other/cancel", "{}").status, 404);
}

TEST_F(ApiTest, WrongQueriesNameTheParameter) {
  const std::string logs = "/api/v1/jobs/digits-1/logs";
  EXPECT_EQ(message_of(get(logs, {{"offset", "-1"}})),
            "`offset` is \"-1\"; a number from 0 to 18446744073709551615 was expected");
  EXPECT_EQ(message_of(get(logs, {{"worker", "x"}})),
            "`worker` is \"x\"; a number from 0 to 65535 was expected");
  EXPECT_EQ(message_of(get(logs, {{"ofset", "1"}})),
            "unknown parameter `ofset`; did you mean `offset`?");
  EXPECT_EQ(message_of(get(logs, {{"offset", "1"}, {"offset", "2"}})), "`offset` is given twice");
  EXPECT_EQ(get(logs, {{"offset", ""}}).status, 400);
  EXPECT_EQ(get("/api/v1/jobs", {{"all", "1"}}).status, 400);
}

TEST_F(ApiTest, AnUnknownRouteListsThoseNearby) {
  const Reply reply = get("/api/v1/job");
  EXPECT_EQ(reply.status, 404);
  const json error = error_of(reply);
  EXPECT_EQ(error.at("code"), "not_found");
  EXPECT_EQ(error.at("message"), "there is no /api/v1/job");
  const std::string hint = error.at("hint");
  EXPECT_TRUE(hint.starts_with("did you mean /api/v1/jobs? routes: GET /api/v1/jobs")) << hint;
  EXPECT_EQ(hint.find("healthz"), std::string::npos);
  for (const char* path : {"/", "", "/api/v1/jobs/", "/api/v1/jobs/a/b", "/api/v1/jobs//logs"})
    EXPECT_EQ(get(path).status, 404) << path;
}

TEST_F(ApiTest, AnUnknownMethodSaysWhichAreTaken) {
  const Reply reply = post("/healthz", "{}");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(error_of(reply).at("code"), "method_not_allowed");
  EXPECT_EQ(reply.headers, (std::vector<std::pair<std::string, std::string>>{{"Allow", "GET"}}));
  const Reply removal = api_.handle({.method = "DELETE",
                                     .path = "/api/v1/jobs",
                                     .headers = {{"authorization", "Bearer 0123456789abcdef"}}});
  EXPECT_EQ(removal.status, 405);
  EXPECT_EQ(error_of(removal).at("hint"), "use GET, POST");
  EXPECT_EQ(get("/api/v1/jobs/digits-1/cancel").status, 405);
}

TEST_F(ApiTest, JobsThatCannotExistAreNotLookedFor) {
  EXPECT_EQ(get("/api/v1/jobs/nothing").status, 404);
  EXPECT_EQ(get("/api/v1/jobs/nothing/logs").status, 404);
  EXPECT_EQ(backend_.calls(), std::vector<std::string>{"job"});
  for (const std::string& id :
       {std::string(".."), std::string(".hidden"), std::string("a b"), std::string("a\\b"),
        std::string("a\0b", 3), std::string(129, 'a'), std::string("\xc3\xa4")}) {
    EXPECT_EQ(get("/api/v1/jobs/" + id + "/report").status, 400) << id;
    EXPECT_EQ(get("/api/v1/jobs/" + id).status, 400) << id;
  }
  EXPECT_EQ(backend_.calls().size(), 1u);
}

TEST_F(ApiTest, PostsOfABrowsersFormsAreRefused) {
  for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded",
                           "multipart/form-data; boundary=x", "text/plain; application/json"}) {
    EXPECT_EQ(post("/api/v1/jobs/digits-1/cancel", "{}", type).status, 415) << type;
  }
  EXPECT_TRUE(backend_.calls().empty());
}

TEST_F(ApiTest, ABodyOverAMebibyteIsRefused) {
  const Reply reply = post("/api/v1/jobs", std::string(kMostBodyBytes + 1, ' '));
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(error_of(reply).at("code"), "body_too_large");
}

TEST_F(ApiTest, TheBackendsErrorsKeepTheirCode) {
  const Reply wrong = post("/api/v1/jobs", R"({"job": "wrong"})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(error_of(wrong).at("message"), "unknown key `train.optimiser`");
  const Reply thrown = post("/api/v1/jobs", R"({"job": "throw"})");
  EXPECT_EQ(thrown.status, 500);
  EXPECT_EQ(error_of(thrown).at("code"), "internal");
}

TEST_F(ApiTest, WhoComesThroughAProxyIsNotOnThisMachine) {
  for (const char* header : {"x-forwarded-for", "forwarded", "via"}) {
    const Reply reply = api_.handle({.method = "GET",
                                     .path = "/api/v1/jobs",
                                     .headers = {{"host", "localhost"}, {header, "192.0.2.1"}},
                                     .peer = Peer::kLoopback});
    EXPECT_EQ(reply.status, 401) << header;
  }
}

TEST_F(ApiTest, EventsBeginBehindTheLastOneSeen) {
  EXPECT_EQ(get("/events").events->id, std::nullopt);
  EXPECT_EQ(get("/events", {{"after", "7"}}).events->id, 7u);
  const auto with_header = [&](const std::string& id) {
    return api_.handle({.method = "GET",
                        .path = "/events",
                        .query = {{"after", "7"}},
                        .headers = {{"last-event-id", id}},
                        .peer = Peer::kLoopback});
  };
  EXPECT_EQ(with_header("9").events->id, 9u);
  EXPECT_EQ(with_header("x").status, 400);
}

TEST(Reply, EveryCodeSurvivesTheWay) {
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i) {
    const auto code = static_cast<Code>(i);
    EXPECT_EQ(code_of(to_string(code), 418), code);
    EXPECT_GE(http_status(code), 400);
  }
  EXPECT_EQ(code_of("method_not_allowed", 405), Code::kInvalidArgument);
  EXPECT_EQ(code_of("", 401), Code::kDenied);
  EXPECT_EQ(code_of("", 502), Code::kPeerLost);
  EXPECT_EQ(code_of("", 503), Code::kTimeout);
}

TEST(OpenApi, DescribesEveryRoute) {
  const std::string text(openapi_yaml());
  for (const Route& route : routes()) {
    const std::size_t at = text.find("\n  " + std::string(route.path) + ":\n");
    ASSERT_NE(at, std::string::npos) << route.path;
    // The paths are the only keys that are indented by two and begin with a slash.
    const std::string part = text.substr(at, text.find("\n  /", at + 1) - at);
    const std::string method = route.method == "GET" ? "\n    get:\n" : "\n    post:\n";
    EXPECT_NE(part.find(method), std::string::npos) << route.method << " " << route.path;
  }
}

TEST(OpenApi, DescribesNoRouteThatIsNotThere) {
  const std::string text(openapi_yaml());
  for (std::size_t at = text.find("\n  /"); at != std::string::npos;
       at = text.find("\n  /", at + 1)) {
    const std::string path = text.substr(at + 3, text.find(":\n", at) - at - 3);
    const auto known = routes();
    EXPECT_TRUE(std::any_of(known.begin(), known.end(), [&](const Route& route) {
      return route.path == path;
    })) << path;
  }
}

}  // namespace
}  // namespace tandem::web
