// kvpage-capacity as users meet it: exit status, values, and what it says to nonsense.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "model.hpp"
#include "presets.hpp"

namespace {

using namespace capacity_example;
using nlohmann::json;

struct outcome {
  int status;
  std::string said;  // both streams
};

outcome run(const std::string& options) {
  const std::string command = std::string(KVPAGE_CAPACITY_PROGRAM) + " " + options + " 2>&1";
  std::FILE* const program = popen(command.c_str(), "r");
  outcome result{-1, {}};
  if (program == nullptr) return result;
  for (int letter; (letter = std::fgetc(program)) != EOF;) result.said += static_cast<char>(letter);
  const int status = pclose(program);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  return result;
}

json planned(const std::string& options) {
  const outcome ran = run("--json " + options);
  EXPECT_EQ(ran.status, 0) << ran.said;
  return json::parse(ran.said, nullptr, false);
}

void expect_refused(const std::string& options, const std::string& reason, int status = 2) {
  const outcome ran = run(options);
  EXPECT_EQ(ran.status, status) << options;
  EXPECT_NE(ran.said.find(reason), std::string::npos) << options << " was answered with: " << ran.said;
}

std::string temporary(const std::string& name) {
  return testing::TempDir() + "kvpage_capacity_" + std::to_string(getpid()) + "_" + name;
}

// A file that is gone when the tests are over.
std::string file_with(const std::string& name, const std::string& text) {
  static struct cleanup {
    std::set<std::string> paths{};
    ~cleanup() {
      for (const std::string& path : paths) std::filesystem::remove(path);
    }
  } written;
  const std::string path = temporary(name);
  written.paths.insert(path);
  std::ofstream(path) << text;
  return path;
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

model preset(std::string_view name) {
  return model_from_config(std::string(name), find_preset(model_presets(), "--model", name).config);
}

// Of a llama preset in which one field was replaced (or, by null, taken out).
std::string config_with(const std::string& name, const json& value, std::string_view base = "llama-3.1-8b") {
  json config = json::parse(find_preset(model_presets(), "--model", base).config);
  config[name] = value;
  return "--config " + file_with("config.json", config.dump());
}

// --- Presets ---

TEST(capacity_presets, parameters_as_published) {
  EXPECT_EQ(preset("llama-3.1-8b").parameters.total(), 8'030'261'248u);    // exact
  EXPECT_EQ(preset("qwen3-30b-a3b").parameters.total(), 30'532'122'624u);  // exact
  // "1T" within 3 %; "744B" and "671B" within 0.2 %, with 10 and 11.6 for the layer of multi-token prediction.
  EXPECT_NEAR(static_cast<double>(preset("kimi-k2.6").parameters.total()), 1.0e12, 0.03e12);
  EXPECT_NEAR(static_cast<double>(preset("glm-5.2").parameters.total()), 754e9, 0.002 * 754e9);
  EXPECT_NEAR(static_cast<double>(preset("deepseek-v3").parameters.total()), 682.6e9, 0.002 * 682.6e9);
}

// Published: 705 GiB in FP8, 421 GiB with INT4 experts.  Tolerance 0.5 %.
TEST(capacity_presets, glm_weights_are_computed) {
  const json result = planned("--model glm-5.2 --mem-fraction 0.8 --weights fp8,int4-g32");
  EXPECT_NEAR(result["plans"][0]["weights_gib"].get<double>(), 705.0, 0.005 * 705.0);
  EXPECT_NEAR(result["plans"][1]["weights_gib"].get<double>(), 421.0, 0.005 * 421.0);
  EXPECT_NEAR(result["gains"][0]["freed_gib_per_gpu"].get<double>(), 35.5, 0.1);
}

TEST(capacity_presets, glm_has_index_keys_on_21_of_78_layers) {
  EXPECT_EQ(preset("glm-5.2").layers, 78u);
  EXPECT_EQ(preset("glm-5.2").index.layers, 21u);
  EXPECT_EQ(preset("glm-5.2").index.dim, 128u);
}

TEST(capacity_presets, every_model_plans_on_every_gpu) {
  for (const model_preset& one : model_presets())
    for (const gpu_preset& gpu : gpu_presets()) {
      const outcome ran = run("--tp 16 --model " + std::string(one.name) + " --gpu " + std::string(gpu.name));
      EXPECT_EQ(ran.status, 0) << ran.said;
    }
}

// --- Published figures, through the program ---

TEST(capacity_program, without_arguments_it_prints_a_plan) {
  const outcome ran = run("");
  EXPECT_EQ(ran.status, 0);
  EXPECT_NE(ran.said.find("kimi-k2.6 on 8 x h200"), std::string::npos) << ran.said;
}

TEST(capacity_program, kimi_in_44_9_gib) {
  const json caches = planned("--pool-gib 44.9 --request-tokens 21000")["plans"][0]["caches"];
  ASSERT_EQ(caches.size(), 3u);
  EXPECT_EQ(caches[0]["bytes_per_token"], 70'272);
  EXPECT_EQ(caches[0]["tokens"], 685'952);  // whole pages, without the null page
  EXPECT_EQ(caches[0]["requests"], 32);
  EXPECT_EQ(caches[1]["bytes_per_token"], 35'136);
  EXPECT_EQ(caches[1]["tokens"], 1'372'032);
  EXPECT_EQ(caches[1]["requests"], 65);
  EXPECT_EQ(caches[2]["format"], "mla-656");
  EXPECT_EQ(caches[2]["tokens"], 1'204'672);
}

TEST(capacity_program, glm_in_both_readings) {
  const std::string options =
      "--model glm-5.2 --mem-fraction 0.80 --weights-gib 705,421 --format mla-656 --request-tokens 21000";
  const json gain = planned(options)["gains"][0];
  EXPECT_EQ(gain["tokens_added"], 706'671);
  EXPECT_NEAR(gain["tokens_after"].get<double>(), 1.18e6, 0.002 * 1.18e6);
  const std::string text = run(options).said;
  EXPECT_NE(text.find("added: 35.5 GiB / bytes per token"), std::string::npos) << text;
  EXPECT_NE(text.find("then in all: the pool of 59.2 GiB"), std::string::npos) << text;
}

TEST(capacity_program, readme_shows_what_it_prints) {
  const std::string text = run("--model glm-5.2 --mem-fraction 0.80 --weights-gib 705,421 --format mla-656 "
                               "--request-tokens 21000")
                               .said;
  EXPECT_NE(contents(KVPAGE_README).find("```text\n" + text + "```\n"), std::string::npos) << text;
}

TEST(capacity_program, plot_has_labelled_axes) {
  if (std::system("command -v gnuplot >/dev/null 2>&1") != 0) GTEST_SKIP() << "no gnuplot";
  const std::string svg = temporary("plot.svg");
  const outcome ran = run("--request-tokens 21000 --plot " + svg);
  EXPECT_EQ(ran.status, 0) << ran.said;
  const std::string drawn = contents(svg);
  for (const char* label : {"tokens (millions)", "concurrent requests of 21 000 tokens", "fp8_e4m3 656 B",
                            "does not fit", "69.2 GiB"})
    EXPECT_NE(drawn.find(label), std::string::npos) << label;
  std::filesystem::remove(svg);
}

TEST(capacity_program, says_that_a_plot_cannot_be_written_before_it_looks_for_gnuplot) {
  expect_refused("--plot /nowhere/at/all.svg", "--plot: /nowhere/at/all.svg cannot be written", 1);
}

// gnuplot runs what stands between backticks in its strings.
TEST(capacity_program, plot_runs_nothing_that_a_file_name_holds) {
  if (std::system("command -v gnuplot >/dev/null 2>&1") != 0) GTEST_SKIP() << "no gnuplot";
  const std::string svg = temporary("`echo ran`.svg");
  EXPECT_EQ(run("--plot '" + svg + "'").status, 0);
  EXPECT_TRUE(std::filesystem::remove(svg));
}

// --- config.json ---

TEST(capacity_config, reads_what_the_preset_reads) {
  const json result = planned(config_with("model_type", "llama") + " --tp 1 --weights bf16");
  EXPECT_EQ(result["parameters"], 8'030'261'248u);
  EXPECT_EQ(result["plans"][0]["caches"][0]["bytes_per_token"], 131'072);
}

TEST(capacity_config, names_what_it_does_not_know) {
  expect_refused(config_with("architectures", {"MambaForCausalLM"}),
                 "architecture MambaForCausalLM is unknown");
  expect_refused(config_with("architectures", nullptr), "architectures is missing or empty");
  expect_refused(config_with("architectures", "LlamaForCausalLM"), "it must be a list of names");
  expect_refused(config_with("sliding_window", 4096), "sliding_window is set");
  expect_refused(config_with("layer_types", {"full_attention", "sliding_attention"}),
                 "layer_types holds sliding_attention");
  expect_refused(config_with("indexer_types", {"full"}, "glm-5.2"), "indexer_types has 1 entries");
  expect_refused("--config " + file_with("empty.json", ""), "is not a JSON object");
  expect_refused("--config " + file_with("braces.json", "{}"), "architectures is missing or empty");
  expect_refused("--config /nowhere.json", "/nowhere.json cannot be read");
  expect_refused("--config /", "/ cannot be read");
}

TEST(capacity_config, names_fields_that_are_missing_or_malformed) {
  expect_refused(config_with("num_hidden_layers", nullptr), "num_hidden_layers is missing");
  for (const json& value : {json(0), json(-3), json(1.5), json("32"), json(1e30)})
    expect_refused(
        config_with("num_hidden_layers", value),
        "num_hidden_layers is " + value.dump() + "; it must be a whole number between 1 and 65536");
  expect_refused(config_with("num_key_value_heads", 7), "num_key_value_heads is 7; it must divide");
  expect_refused(config_with("num_attention_heads", 40), "head_dim is missing");
  expect_refused(config_with("tie_word_embeddings", 1), "tie_word_embeddings is 1; it must be true or false");
  expect_refused(config_with("kv_lora_rank", nullptr, "deepseek-v3"), "kv_lora_rank is missing");
  expect_refused(config_with("first_k_dense_replace", 62, "deepseek-v3"),
                 "first_k_dense_replace is 62; it must be a whole number between 0 and 61");
  const json huge = 1 << 20;
  expect_refused(config_with("n_routed_experts", huge, "deepseek-v3"), "more than 2^50 parameters");
}

// --- Nonsense ---

TEST(capacity_program, refuses_options_out_of_range) {
  expect_refused("--tp 0", "--tp: is 0; it must be between 1 and 65536");
  expect_refused("--tp -8", "--tp: is -8; it must be between 1 and 65536");
  expect_refused("--tp 1e99", "--tp: is 1e99");
  expect_refused("--page-size 0", "it must be between 1 and 1048576");
  expect_refused("--request-tokens 2147483648", "it must be between 1 and 2147483647");
  expect_refused("--request-tokens 99999999999999999999", "it must be between 1 and 2147483647");
  for (const char* fraction : {"nan", "-nan", "inf", "1.01", "0", "-1"})
    expect_refused(std::string("--mem-fraction ") + fraction,
                   std::string("is ") + fraction + "; it must be between 0.001 and 1");
  for (const char* option : {"--config", "--plot", "--tp", "--weights-gib"})
    expect_refused(std::string(option) + " ''", "is empty");
  for (const char* option : {"--weights-gib", "--pool-gib", "--gpu-gib"}) {
    expect_refused(std::string(option) + " 0", "it must be between 0.001 and 1048576");
    expect_refused(std::string(option) + " nan", "it must be between 0.001 and 1048576");
    expect_refused(std::string(option) + " 1e300", "it must be between 0.001 and 1048576");
    expect_refused(std::string(option) + " many", "many");
  }
}

TEST(capacity_program, refuses_names_it_does_not_know) {
  expect_refused("--model gpt-9", "--model gpt-9 is unknown; known are kimi-k2.6");
  expect_refused("--gpu abacus", "--gpu abacus is unknown; known are h100, h200, b200");
  expect_refused("--weights fp1", "--weights fp1 is unknown");
  expect_refused("--element fp1", "--element");
  expect_refused("--format 656", "--format");
  expect_refused("--pool-gib 10 --weights bf16", "excludes");
}

TEST(capacity_program, refuses_what_does_not_go_together) {
  expect_refused("--model llama-3.1-8b --tp 3", "ranks is 3; it must divide the 8 K and V heads");
  expect_refused("--format mla-584",
                 "latent_dim is 512 and rope_dim 64; the 584-byte format stores 448 and 64");
  expect_refused("--model llama-3.1-8b --format mla-656", "the model has K and V heads");
  expect_refused("--element bf16 --format mla-656", "published for fp8_e4m3 alone");
}

TEST(capacity_program, says_when_nothing_fits) {
  expect_refused("--weights-gib 2000", "they must be below 125.8 GiB", 1);
  expect_refused("--reserve-gib 126", "a reserve of 126.0 GiB", 1);
  expect_refused("--pool-gib 0.001", "a page is 4497408 bytes; it must be at most 536871", 1);
}

}  // namespace
