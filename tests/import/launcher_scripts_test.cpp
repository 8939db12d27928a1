// Launch scripts in Bash: which of their words are arguments of the run.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "tests/import/launched.hpp"

using namespace tracecast;

namespace {

ImportedRun script(const std::string& text) {
  return imported("megatron", text, "run.sh",
                  {.model = "gpt2-small",
                   .topology = "dgx-h100",
                   .gpus = 8,
                   .overrides = {"training.seq_length=64", "model.vocab_size=50688"}});
}

std::vector<std::string> notes(const ImportedRun& run) {
  std::vector<std::string> about;
  std::ranges::copy_if(run.assumptions, std::back_inserter(about),
                       [](const std::string& each) { return each.find("script") != std::string::npos; });
  return about;
}

std::string not_evaluated(const std::string& lines) {
  return "if, case, loops, functions and tests of the script are not evaluated: what " + lines +
         " is taken, and the last value of a name";
}

const std::string kArray = "ARGS=(--micro-batch-size 1 --global-batch-size 32 --bf16)\n";
const std::string kRun = "torchrun pretrain_gpt.py ${ARGS[@]}\n";
const std::string kFp8 = "ARGS+=(--fp8-format hybrid)\n";

}  // namespace

TEST_CASE("scripts: what a test, a loop or a function adds is taken, and said", "[io][launch]") {
  for (const std::string& branch : {"[[ \"$FP8\" == 1 ]] && " + kFp8, "[ -z \"$BF16\" ] || " + kFp8}) {
    const ImportedRun guarded = script(kArray + branch + kRun);
    CHECK(guarded.scenario.training.dtype == Precision::fp8);
    CHECK(notes(guarded) == std::vector{not_evaluated("line 2 sets")});
  }
  for (const std::string& begin :
       std::vector<std::string>{"while getopts f o; do\n", "for i in 1 2; do\n", "until false; do\n", "add() {\n",
                                "function add {\n", "add () {\n"}) {
    const std::string end = begin.ends_with("do\n") ? "done\n" : "}\n";
    CHECK(notes(script(kArray + begin + kFp8 + end + kRun)) == std::vector{not_evaluated("line 3 sets")});
  }
  // A command before && is no test, and what follows the loop is outside it.
  CHECK(notes(script(kArray + "for i in 1 2; do echo $i; done\ncd /work && " + kFp8 + kRun)).empty());
  CHECK(
      script(kArray + "cd /work && torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size 2 2>&1 | tee log\n")
          .scenario.parallel.tp == 2);
}

TEST_CASE("scripts: of the branches of one if the last counts, also where a variable expands itself", "[io][launch]") {
  for (const std::string& more :
       {std::string("ARGS+=(--fp8-format hybrid)\nelse\nARGS+=(--tensor-model-parallel-size 2)\n"),
        std::string("ARGS=(\"${ARGS[@]}\" --fp8-format hybrid)\nelse\n"
                    "ARGS=(\"${ARGS[@]}\" --tensor-model-parallel-size 2)\n")}) {
    const Scenario s = script(kArray + "if [ -f \"$X\" ]; then\n" + more + "fi\n" + kRun).scenario;
    CHECK(s.training.dtype == Precision::bf16);
    CHECK(s.parallel.tp == 2);
    CHECK(s.training.global_batch_size == 32);
  }
  // Operators end an argument, inside quotes as well.
  for (const std::string& run :
       {std::string("torchrun pretrain_gpt.py ${ARGS[@]} --bf16 |& tee log\n"),
        std::string("bash -c \"torchrun pretrain_gpt.py ${ARGS[*]} --bf16 2>&1 | tee log\"\n")})
    CHECK(script(kArray + run).scenario.training.dtype == Precision::bf16);
}

TEST_CASE("scripts: arguments that no command expands are left out", "[io][launch]") {
  const std::string unused = "OTHER_ARGS=(--fp8-format hybrid\n  --tensor-model-parallel-size \"4\")\n";
  const ImportedRun run = script(kArray + unused + kRun);
  CHECK(run.scenario.training.dtype == Precision::bf16);
  CHECK(run.scenario.parallel.tp == 1);
  CHECK(notes(run) ==
        std::vector<std::string>{"the script does not use OTHER_ARGS: the arguments of lines 2, 3 are left out"});
  // Used inside an array that is used; and a file that starts nothing is a part of another script.
  CHECK(script(kArray + unused + "ALL=(${ARGS[@]} \"${OTHER_ARGS[@]}\")\ntorchrun pretrain_gpt.py \"${ALL[@]}\"\n")
            .scenario.parallel.tp == 4);
  CHECK(script(kArray + unused).scenario.parallel.tp == 4);
  // The same of texts, of which one holds the other; the last argument has no value.
  const std::string texts = "A=\"--tensor-model-parallel-size 4\"\nB=\"$A --sequence-parallel\"\nC=\"--fp16\"\n";
  const ImportedRun nested = script(kArray + texts + "torchrun pretrain_gpt.py ${ARGS[@]} $B\n");
  CHECK(nested.scenario.parallel.tp == 4);
  CHECK(nested.scenario.parallel.sequence_parallel);
  CHECK(nested.scenario.training.dtype == Precision::bf16);
  CHECK(script(kArray + "torchrun pretrain_gpt.py --sequence-parallel ${ARGS[@]} --tensor-model-parallel-size 2\n")
            .scenario.parallel.sequence_parallel);
}

TEST_CASE("scripts: an assignment replaces what a variable had, and += adds to it", "[io][launch]") {
  const auto layout = [](const std::string& assignments) {
    const Parallel p =
        script(kArray + assignments + "torchrun pretrain_gpt.py ${ARGS[@]} $P ${P[@]}\n").scenario.parallel;
    return std::pair(p.tp, p.pp);
  };
  const std::string tp = "--tensor-model-parallel-size 4", pp = "--pipeline-model-parallel-size 2";
  struct Case {
    std::string assignments;
    std::pair<int, int> tp_and_pp;
  };
  for (const Case& each : {
           Case{"P=\"" + tp + "\"\nP=\"" + pp + "\"\n", {1, 2}},
           Case{"P=(" + tp + ")\nP=(" + pp + ")\n", {1, 2}},
           Case{"P=\"" + tp + "\"\nP=\n", {1, 1}},
           Case{"P=\"" + tp + "\"\nunset P\n", {1, 1}},
           Case{"P=\"" + tp + "\"\nP+=\" " + pp + "\"\n", {4, 2}},
           Case{"P=\"" + tp + "\"\nP=\"$P " + pp + "\"\n", {4, 2}},
           Case{"P=(" + tp + ")\nP=(" + pp + " \"${P[@]}\")\n", {4, 2}},
           // Of the branches of one if or case, the last one that sets a variable counts.
           Case{"if a; then\n  P+=(" + tp + ")\nelse\n  P+=(" + pp + ")\nfi\n", {1, 2}},
           Case{"case $1 in\n  --" + tp.substr(2, 26) + ") P+=(" + tp + ");;\n  b | c) P+=(" + pp +
                    ");;\n  *) exit 1;;\nesac\n",
                {1, 2}},
           Case{"if a; then\n  P+=(" + tp + ")\nfi\nif b; then\n  P+=(" + pp + ")\nfi\n", {4, 2}},
       })
    CHECK_THAT(each.assignments, Catch::Predicate<std::string>([&](const std::string& assignments) {
                 return layout(assignments) == each.tp_and_pp;
               }));
  CHECK(notes(script(kArray + "if a; then\n  P=\"" + tp + "\"\nelse\n  P=\"" + pp +
                     "\"\nfi\ntorchrun pretrain_gpt.py ${ARGS[@]} $P\n")) ==
        std::vector{not_evaluated("lines 3, 5 set")});
}

TEST_CASE("scripts: words of other programs are not arguments of the run", "[io][launch]") {
  const std::string more = " --tensor-model-parallel-size 4 --recompute-granularity full\n";
  const auto is_plain = [](const ImportedRun& run) {
    return run.scenario.parallel.tp == 1 && run.scenario.training.recompute == Recompute::none;
  };
  for (const std::string& text :
       {"echo try" + more, "echo \"try" + more + "\"\n", "printf '%s' " + more, "cat <<TXT\ntry" + more + "TXT\n",
        "cat > note <<TXT\ntry" + more + "TXT\n", "# torchrun" + more, "usage() {\n  echo" + more + "}\n"})
    for (const std::string& both : {kArray + text + kRun, kArray + kRun + text}) {
      INFO(both);
      CHECK(is_plain(script(both)));
    }
  // Text that is run, as a file, by a pipe or at once.
  const std::string train = "torchrun pretrain_gpt.py ${ARGS[@]}" + more;
  for (const std::string& text :
       {"cat > job.sh <<EOF\n" + train + "EOF\nsbatch job.sh\n", "cat <<EOF | bash\n" + train + "EOF\n",
        "tee ${DIR}/job.sh <<EOF\n" + train + "EOF\nbash $DIR/job.sh\n",
        "echo \"" + train + "\" > job.sh\nsh ./job.sh\n", "srun bash -c \"" + train + "\"\n",
        "ssh node \"" + train + "\"\n", "CMD=\"" + train + "\"\necho $CMD\neval $CMD\n"}) {
    INFO(text);
    CHECK(script(kArray + text).scenario.parallel.tp == 4);
  }
  const ImportedRun converted =
      script(kArray + kRun + "python tools/convert.py --target-tensor-parallel-size 2 --use-distributed-optimizer\n");
  CHECK(converted.scenario.parallel.zero_stage == 0);
  CHECK(assumes(converted, "line 3 starts another program than training: its arguments are left out"));
  // Commands that train and differ are said, also where one of them lacks an argument.
  CHECK(notes(script(kArray + kRun + "torchrun pretrain_gpt.py ${ARGS[@]} --sequence-parallel\n")) ==
        std::vector<std::string>{
            "the script starts several programs (lines 2, 3): the last value of an argument is taken"});
}

TEST_CASE("scripts: expansions become arguments, or a note", "[io][launch]") {
  const auto run = [](const std::string& before, const std::string& arguments) {
    return script(kArray + before + "torchrun pretrain_gpt.py ${ARGS[@]} " + arguments + "\n");
  };
  const std::string tp = "--tensor-model-parallel-size 4";
  CHECK(run("SP=1\n", "${SP:+" + tp + "} --lr 1").scenario.parallel.tp == 4);
  CHECK(run("E=${E:-\"" + tp + " --lr 1\"}\n", "$E").scenario.parallel.tp == 4);
  CHECK(run("E=\"${E:-" + tp + "}\"\n", "$E").scenario.parallel.tp == 4);
  CHECK(run("", "${E:-" + tp + " --lr 1}").scenario.parallel.tp == 4);
  CHECK(run("TP=8\nunset TP\n", "--tensor-model-parallel-size ${TP:-${OTHER:-4}}").scenario.parallel.tp == 4);
  for (const std::string& unknown :
       {"$@", "${SP:+--sequence-parallel}", "${P[@]}", "$P", "$( a && echo --lr )", "`echo --lr`"})
    for (const std::string& arguments : {"--lr 1 " + unknown, tp + " --use-distributed-optimizer " + unknown}) {
      INFO(arguments);
      const ImportedRun with = run("source ./p.sh\n", arguments);
      CHECK(assumes(with, unknown + " of line 3 is not known: the arguments that it adds are left out"));
      CHECK(with.scenario.parallel.zero_stage == (arguments.starts_with(tp) ? 1 : 0));
    }
  CHECK(assumes(run("source ./p.sh\n", "${P[@]}"), "line 2 reads ./p.sh, which is not read here"));
  CHECK(notes(run("", "--lr 1")).empty());
  CHECK(notes(run("if a; then TP=2; fi\nTP=4\n", "--tensor-model-parallel-size $TP")).empty());  // set after the branch
  // What stands for another unknown is not set; an empty array is not a function.
  CHECK(run("TP=$2\n", "--tensor-model-parallel-size ${TP:-4}").scenario.parallel.tp == 4);
  CHECK(run("P=()\nP+=(" + tp + ")\n", "${P[@]}").scenario.parallel.tp == 4);
  CHECK(assumes(script(kArray + "CMD=\"pretrain_gpt.py $@ ${ARGS[*]}\"\nsrun sh -c \"$CMD\"\n"),
                "$@ of line 2 is not known"));
}

TEST_CASE("scripts: quotes, documents and commands inside words", "[io][launch]") {
  const std::string tensor = "torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size ";
  // A quote in a document; a document that is a script.
  CHECK(script(kArray + "cat <<'EOF'\nit's\nEOF\n" + tensor + "2\n").scenario.parallel.tp == 2);
  CHECK(script(kArray + "cat <<-EOF > note\nit's\n\tEOF\n" + tensor + "2\n").scenario.parallel.tp == 2);
  CHECK(script(kArray + "sbatch <<EOF\n" + tensor + "2\nEOF\n").scenario.parallel.tp == 2);
  CHECK(refusal("megatron", kArray + "cat <<EOF\nit's\nEOF\n" + tensor + "3\n", "run.sh", givens("llama-3.1-8b", 24))
            .starts_with("run.sh:5: tensor-model-parallel-size"));  // lines are those of the file
  // \" is part of a quoted text, and so is what follows it.
  CHECK(script(kArray + "NAME=\"a \\\"b --tensor-model-parallel-size 4\\\"\"\n" + kRun).scenario.parallel.tp == 1);
  // A backslash joins lines between double quotes, and is a character between single ones.
  const std::string joined = "--tensor-model-parallel-size \\\n2";
  CHECK(script(kArray + "T=\"" + joined + "\"\ntorchrun pretrain_gpt.py ${ARGS[@]} $T\n").scenario.parallel.tp == 2);
  CHECK(refusal("megatron", kArray + "T='" + joined + "'\ntorchrun pretrain_gpt.py ${ARGS[@]} $T\n", "run.sh",
                givens("llama-3.1-8b", 8))
            .starts_with("run.sh:2: tensor-model-parallel-size = \"\\\": is not a number"));
  const ImportedRun command =
      script(kArray + tensor + "2 --name $(basename $(pwd) --suffix .sh) --sequence-parallel\n");
  CHECK(command.scenario.parallel.sequence_parallel);
  REQUIRE(command.unmapped.size() == 1);
  CHECK(command.unmapped[0].key == "name");
}

TEST_CASE("scripts: quoted patterns of case, and words that are given by <<<", "[io][launch]") {
  const std::string run = "torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size $TP\n";
  CHECK(script(kArray + "TP=2\ncase \"$1\" in\n  \"8b\" | '70b') TP=4;;\nesac\n" + run).scenario.parallel.tp == 4);
  const ImportedRun both = script(kArray + "case \"$1\" in\n\"8b\")\nTP=2\n;;\n\"70b\")\nTP=4\n;;\nesac\n" + run);
  CHECK(both.scenario.parallel.tp == 4);
  CHECK(notes(both) == std::vector{not_evaluated("lines 4, 7 set")});
  for (const char* text : {"cat <<< \"$MSG\"\n", "cat <<<\"$MSG\"\n", "grep -q a <<< b && echo yes\n"})
    CHECK(script(kArray + text + "TP=4\n" + run).scenario.parallel.tp == 4);
  CHECK(refusal("megatron",
                "TP=4\nread -r TP PP <<< \"2 1\"\ntorchrun pretrain_gpt.py --micro-batch-size 1 "
                "--tensor-model-parallel-size $TP\n",
                "run.sh", givens("llama-3.1-8b", 8)) ==
        "run.sh:3: tensor-model-parallel-size = \"$TP\": is a variable that the file does not set (write the number, "
        "or give --set parallel.tp=N)");
}

TEST_CASE("scripts: what a script itself decides is decided", "[io][launch]") {
  const auto tp = [](const std::string& before) {
    const ImportedRun run =
        script(kArray + before + "torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size $TP\n");
    return std::pair(run.scenario.parallel.tp, !notes(run).empty());
  };
  const auto decided = [](int tp) { return std::pair(tp, false); };
  const auto open = [](int tp) { return std::pair(tp, true); };
  const auto branch = [&](const std::string& test) {
    return tp("A=bf16\nN=2\nTP=1\nif " + test + "; then TP=2; fi\n");
  };
  for (const char* holds : {"[ $A = bf16 ]", "[[ \"$A\" == \"bf16\" ]]", "[ \"${A}\" != fp8 ]", "[ -n \"$A\" ]",
                            "test $N -ge 2", "[[ ! -z $A ]]", "[[ $A == b* ]]", "! [ $A = fp8 ]",
                            "[ $A = fp8 ] || [ $N -lt 3 ]", "[ \"$1\" ] || [ $N -eq 2 ]", "[ $((N * 2 - 1)) -eq 3 ]"})
    CHECK_THAT(std::string(holds),
               Catch::Predicate<std::string>([&](const std::string& test) { return branch(test) == decided(2); }));
  for (const char* fails :
       {"[ $A = fp8 ]", "[ \"$A\" != bf16 ]", "[[ -z $A ]]", "[ $N -gt 2 ]", "[ $A = fp8 ] && [ $1 = 8b ]"})
    CHECK_THAT(std::string(fails),
               Catch::Predicate<std::string>([&](const std::string& test) { return branch(test) == decided(1); }));
  for (const char* unknown : {"[ $B = fp8 ]", "[ $A = b* ]", "[ -f $A ]", "[ $N -lt x ]", "grep -q $A file",
                              "(( N > 2 ))", "[ $A = fp8 -a $N = 2 ]", "[ $N -eq $((1 / 0)) ]"})
    CHECK_THAT(std::string(unknown),
               Catch::Predicate<std::string>([&](const std::string& test) { return branch(test) == open(2); }));
  // Of several branches, and inside them; a document of a branch that does not run.
  const std::string chain =
      "A=b\nif [ $A = a ]; then\nTP=8\nelif [ $A = b ]; then\nif [ $A = b ]; then TP=2; else TP=4; fi\n";
  CHECK(tp(chain + "elif [ $A = b ]; then\nTP=4\nelse\nTP=8\nfi\n") == decided(2));
  CHECK(tp("A=b\nTP=1\nif [ $A = a ]; then\ncat > a.sh <<EOF\nTP=8\nEOF\nX=(\n--tensor-model-parallel-size "
           "8\n)\nelse\nTP=2\nfi\n") == decided(2));
  CHECK(tp("A=b\nif [ $X = a ]; then TP=4; elif [ $A = b ]; then TP=2; else TP=8; fi\n") == open(2));
  const std::string sizes = "case $A in\na) TP=8;;\n\"b\" | c) TP=2;;\n*) TP=4;;\nesac\n";
  CHECK(tp("A=b\n" + sizes) == decided(2));
  CHECK(tp("A=d\n" + sizes) == decided(4));
  // A value that another one may have replaced is not known.
  for (const char* other :
       {"A=$1\n", "source conf.sh\nA=${A:-b}\n", "read A\nA=${A:-b}\n", "if x; then A=a; fi\nA=${A:-b}\n",
        "A=b\nif x; then A=a; fi\n", "A=b\nsource conf.sh\n", "for A in a b; do echo $A; done\n",
        "A=b\nwhile getopts a: o; do A=$OPTARG; done\n", "A+=b\n"})
    CHECK_THAT(std::string(other), Catch::Predicate<std::string>([&](const std::string& text) {
                 return tp(text + "TP=1\nif [ $A = a ]; then TP=2; fi\n") == open(2);
               }));
  CHECK(tp("A=b\nTP=1\nrun() {\nif [ $A = a ]; then TP=2; fi\n}\nA=a\nrun\n") == open(2));
}

TEST_CASE("scripts: arithmetic of known numbers, and defaults that are assigned", "[io][launch]") {
  const auto tp = [](const std::string& before, const std::string& value) {
    return script(kArray + before + "torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size " + value + "\n")
        .scenario.parallel.tp;
  };
  CHECK(tp("N=8\nTP=$((N / 2))\n", "$TP") == 4);
  CHECK(tp("N=8\n", "$(($N - 2 * (1 + 2) ))") == 2);
  CHECK(tp("N=8\n", "$((${N:-1} % 6))") == 2);
  CHECK(tp("", "$((-2 * -${N:-1}))") == 2);
  CHECK(tp(": ${TP:=4}\n", "$TP") == 4);
  CHECK(tp("TP=2\n: \"${TP:=4}\"\n", "$TP") == 2);
  CHECK(refusal("megatron", "pretrain_gpt.py --tensor-model-parallel-size $((8\n", "run.sh", givens("llama-3.1-8b", 8))
            .starts_with("run.sh:1: tensor-model-parallel-size = \"$((8\""));  // not closed
  for (const char* unknown : {"$((N / 0))", "$((N / M))", "$((1 << 2))", "$((N * N * N * N))"})
    CHECK(refusal("megatron", "N=100000\npretrain_gpt.py --tensor-model-parallel-size " + std::string(unknown) + "\n",
                  "run.sh", givens("llama-3.1-8b", 8))
              .starts_with("run.sh:2: tensor-model-parallel-size = \"$(("));
}

TEST_CASE("scripts: what nothing in a script sets is not set, and its default decides", "[io][launch]") {
  const std::string run = "torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size $TP $P\n";
  const std::string sizes = "if [ $A = a ]; then TP=8; elif [ $A = b ]; then TP=2; else TP=4; fi\n";
  const auto note = [](const std::string& names) {
    return std::vector<std::string>{names + " not set outside the script, which decides branches of it"};
  };
  for (const auto& [before, name] :
       std::vector<std::pair<std::string, std::string>>{{"A=${A:-b}\n", "$A is"},
                                                        {"A=\"${A-b}\"\n", "$A is"},
                                                        {": ${A:=b}\n", "$A is"},
                                                        {"A=${1:-b}\n", "$1 is"},
                                                        {"A=${A:-${B:-b}}\n", "$A, $B are"},
                                                        {"B=${B:-b}\nA=$B\n", "$B is"}}) {
    INFO(before);
    const ImportedRun decided = script(kArray + before + sizes + run);
    CHECK(decided.scenario.parallel.tp == 2);
    CHECK(notes(decided) == note(name));
  }
  CHECK(script(kArray + "case ${A:-b} in\na) TP=8;;\nb) TP=2;;\nesac\n" + run).scenario.parallel.tp == 2);
  // Of a variable without a default, that it is not set.
  const std::string virtual_stages = "TP=2\nif [ -z ${VP} ]; then P=\"\"; else P=\"--sequence-parallel\"; fi\n";
  const ImportedRun empty = script(kArray + virtual_stages + run);
  CHECK_FALSE(empty.scenario.parallel.sequence_parallel);
  CHECK(notes(empty) == note("$VP is"));
  // What only a branch that does not run sets is not set either.
  const std::string more = "A=${A:-b}\nTP=2\nif [ $A = a ]; then P=\"--sequence-parallel\"; fi\n";
  CHECK(notes(script(kArray + more + run)) == note("$A is"));
  CHECK_FALSE(assumes(script(kArray + more + run), "$P of line"));
  CHECK(notes(script(kArray + more + "P=${P:-c}\nif [ $P = c ]; then TP=4; fi\n" + run)) == note("$A, $P are"));
  CHECK(script(kArray + "P=\"\"\ntorchrun pretrain_gpt.py --sequence-parallel $P ${ARGS[@]} "
                        "--tensor-model-parallel-size 2\n")
            .scenario.parallel.sequence_parallel);
  // A default that decides nothing is not worth a word.
  CHECK(notes(script(kArray + "TP=${TP:-2}\n" + run)).empty());
}

TEST_CASE("scripts: a default is not the value of another branch", "[io][launch]") {
  const std::string run = "torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size $TP\n";
  const auto tp = [&](const std::string& before) { return script(kArray + before + run).scenario.parallel.tp; };
  CHECK(tp("if x; then\nTP=${TP:-4}\nelif y; then\nTP=${TP:-2}\nfi\n") == 2);
  CHECK(tp("TP=1\nif x; then\nTP=4\nelse\nTP=${TP:-2}\nfi\n") == 1);  // set before both
  CHECK(tp("if x; then\nA=4\nelse\nB=1\nTP=${A:-2}\nfi\n") == 2);
  CHECK(tp("if x; then\nTP=4\nfi\nif y; then\nTP=${TP:-2}\nfi\n") == 4);
}

TEST_CASE("scripts: brackets, expansions and quotes inside quotes", "[io][launch]") {
  const std::string run = "torchrun pretrain_gpt.py ${ARGS[@]} $P\n";
  const std::string experts =
      "--num-layers 12 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 64 "
      "--num-experts 8 --moe-layer-freq ";
  const auto dense = [&](const std::string& before, const std::string& frequency) {
    const Model m = script(kArray + before + "P=\" " + experts + frequency + " \"\n" + run).scenario.model;
    return m.moe ? m.moe->leading_dense_layers : -1;
  };
  CHECK(dense("F='([0]*3+[1]*9)'\n", "$F") == 3);  // a text, not an array
  CHECK(dense("F=\"([0]*3+[1]*9)\"\n", "'${F}'") == 3);
  CHECK(dense("", "'([0]*3 + [1]*9)'") == 3);
  CHECK(dense("F=1\n", "'$F'") == 0);
  const auto width = [&](const std::string& value) {
    return script(kArray +
                  "N=2\nW=32\nP=\"--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                  "--max-position-embeddings 64 --ffn-hidden-size " +
                  value + " --sequence-parallel\"\n" + run)
        .scenario.model.ffn_hidden_size;
  };
  CHECK(width("$((${N} * ${W}))") == 64);
  CHECK(width("\\\"$W\\\"") == 32);
  // A command in quotes inside quotes has arguments.
  CHECK(script(kArray + "C=\"bash -c 'torchrun pretrain_gpt.py ${ARGS[*]} --tensor-model-parallel-size 4'\"\neval $C\n")
            .scenario.parallel.tp == 4);
  // A quote that nothing closes on its line is a character.
  CHECK(script(kArray + "P=\"--name don't\n--tensor-model-parallel-size 2\"\n" + run).scenario.parallel.tp == 2);
}

TEST_CASE("scripts: --set lifts what a variable leaves open", "[io][launch]") {
  const std::string loop =
      "for TP in 1 2; do\ntorchrun pretrain_gpt.py --micro-batch-size $M "
      "--tensor-model-parallel-size $TP\ndone\n";
  RunGivens given = givens("llama-3.1-8b", 8);
  CHECK(
      refusal("megatron", loop, "run.sh", given) ==
      "run.sh:2: tensor-model-parallel-size = \"$TP\": is a variable that a loop of the script sets (write the number, "
      "or give --set parallel.tp=N)\n"
      "run.sh:2: micro-batch-size = \"$M\": is a variable that the file does not set (write the number, or give --set "
      "training.micro_batch_size=N)");
  given.overrides.insert(given.overrides.end(), {"parallel.tp=2", "training.micro_batch_size=1"});
  const Scenario lifted = imported("megatron", loop, "run.sh", given).scenario;
  CHECK(lifted.parallel.tp == 2);
  CHECK(lifted.training.global_batch_size == 4);
}

TEST_CASE("scripts: a part of a variable is computed, or its arguments are not known", "[io][launch]") {
  const auto degree = [](const std::string& text) {
    return script(kArray + text + "torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size $TP\n")
        .scenario.parallel.tp;
  };
  CHECK(degree("NAME=qwen3-tp2\nTP=${NAME##*tp}\n") == 2);
  CHECK(degree("NAME=qwen3-tp4\nTP=${NAME: -1}\n") == 4);
  CHECK(degree("N=16\nTP=${N/6/}\n") == 1);
  CHECK(degree("TP=4\nX='$((1'\nX='${N%'\n") == 4);  // not closed
  for (const std::string& part : {"${MORE/--fp16/--bf16}", "${MORE%%--tensor*}", "\"${MORE[@]:0:1}\""}) {
    const ImportedRun run = script(kArray + "MORE=\"--fp16 --tensor-model-parallel-size 2\"\n" +
                                   "torchrun pretrain_gpt.py ${ARGS[@]} " + part + "\n");
    CHECK(run.scenario.training.dtype == Precision::bf16);
    CHECK(run.scenario.parallel.tp == 1);
    CHECK(assumes(run, " of line 3 is not known: the arguments that it adds are left out"));
  }
  const ImportedRun own =
      script(kArray + "MORE=\"--fp16\"\nMORE=\"${MORE/--fp16/}\"\n" + "torchrun pretrain_gpt.py ${ARGS[@]} $MORE\n");
  CHECK(own.scenario.training.dtype == Precision::bf16);
  CHECK(assumes(own, "${MORE/--fp16/} of line 3 is not known"));
  // What is missing may be among them.
  CHECK(refusal("megatron",
                "A=\"--micro-batch-size 1 --bf16\"\ntorchrun --nproc_per_node 8 pretrain_gpt.py ${A/--bf16/}\n",
                "run.sh", {.model = "", .topology = "dgx-h100", .gpus = 8, .overrides = {}})
            .ends_with("; ${A/--bf16/} of line 2 is not known: the arguments that it adds are left out"));
}

TEST_CASE("scripts: a comment or an empty line ends a command, in spite of the backslash before it", "[io][launch]") {
  const std::string run = "torchrun pretrain_gpt.py --micro-batch-size 1 --global-batch-size 32 --bf16 \\\n";
  for (const std::string& end : {"  # --overlap-grad-reduce \\\n", "\n"}) {
    const ImportedRun cut = script(run + end + "  --tensor-model-parallel-size 2 \\\n  --sequence-parallel\n");
    CHECK(cut.scenario.parallel.tp == 1);
    CHECK(assumes(cut,
                  "a comment or an empty line ends the command before line 3: the arguments there are left out, as Bash"
                  " does"));
  }
  CHECK(script(run + "  --tensor-model-parallel-size 2 # two\n").scenario.parallel.tp == 2);
  // A file of arguments has no command that could end.
  CHECK(script("--micro-batch-size 1 --global-batch-size 32 --bf16\n# more\n--tensor-model-parallel-size 2\n")
            .scenario.parallel.tp == 2);
}

TEST_CASE("scripts: a variable before a program holds for that alone", "[io][launch]") {
  const std::string run = "torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size $TP\n";
  for (const std::string& before : {"TP=4 ", "TP=4 OMP_NUM_THREADS=1 ", "env TP=4 "}) {
    CHECK(script(kArray + "TP=2\n" + before + run).scenario.parallel.tp == 2);
    CHECK(script(kArray + "TP=2\n" + before + "python prepare.py\n" + run).scenario.parallel.tp == 2);
  }
  CHECK(script(kArray + "TP=4\n" + run).scenario.parallel.tp == 4);
  CHECK(script(kArray + "TP=2\nTP=4 && " + run).scenario.parallel.tp == 4);
  CHECK(script(kArray + "TP=2\nTP=4; " + run).scenario.parallel.tp == 4);
  // That shell expands the words itself.
  CHECK(script(kArray + "TP=2\nTP=4 bash -c '" + run.substr(0, run.size() - 1) + "'\n").scenario.parallel.tp == 4);
}

TEST_CASE("scripts: a variable before a shell holds for that shell", "[io][launch]") {
  const std::string tensor = "torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size $TP\n";
  for (const char* other : {"bash convert.sh", "sh ./convert.sh", "srun hostname", "eval echo"})
    CHECK(script(kArray + "export TP=2\nTP=8 " + other + "; " + tensor).scenario.parallel.tp == 2);
  CHECK(
      script(kArray + "TP=2\nTP=4 srun bash -c '" + tensor.substr(0, tensor.size() - 1) + "'\n").scenario.parallel.tp ==
      4);
  CHECK(script(kArray + "TP=2\nTP=4 bash <<'EOF'\n" + tensor + "EOF\n").scenario.parallel.tp == 4);
  CHECK(script(kArray + "TP=2\nTP=4 X=1\n" + tensor).scenario.parallel.tp == 4);  // no program
}

// "${ARGS[@]:-}" is the usual form under set -u.
TEST_CASE("scripts: defaults of arrays leave their arguments", "[io][launch]") {
  const std::string set = kArray + "MORE=(--tensor-model-parallel-size 2)\n";
  for (const std::string more :
       {"\"${MORE[@]:-}\"", "\"${MORE[*]:-}\"", "\"${MORE[@]-}\"", "${MORE[@]+\"${MORE[@]}\"}",
        "\"${MORE[@]:+${MORE[@]}}\"", "\"${MORE[@]:0}\"", "\"${OTHER[@]:-${MORE[@]}}\"", "\"${MORE[@]:?no}\""}) {
    INFO(more);
    for (const std::string& run : {"torchrun pretrain_gpt.py ${ARGS[@]} " + more + "\n",
                                   "ALL=(" + more + " --bf16)\ntorchrun pretrain_gpt.py ${ARGS[@]} ${ALL[@]}\n"}) {
      const ImportedRun made = script(set + run);
      CHECK(made.scenario.parallel.tp == 2);
      CHECK_FALSE(assumes(made, "is not known"));
    }
  }
  const ImportedRun none =
      script(kArray + "MORE=()\ntorchrun pretrain_gpt.py ${ARGS[@]} \"${MORE[@]:-}\" \"${NO[@]:-}\"\n");
  CHECK_FALSE(assumes(none, "is not known"));
  CHECK(assumes(script(set + "torchrun pretrain_gpt.py ${ARGS[@]} ${MORE[0]}\n"), "${MORE[0]} of line 3 is not known"));
}

TEST_CASE("scripts: patterns in variables and numbers to other bases decide nothing", "[io][launch]") {
  const auto degree = [](const std::string& test, const std::string& number = "2") {
    return script(kArray + "A=\"1*\"\nif " + test + "; then\n  ARGS+=(--tensor-model-parallel-size " + number +
                  ")\nfi\n" + kRun);
  };
  CHECK(degree("[[ 1abc == \"$A\" ]]").scenario.parallel.tp == 1);
  const ImportedRun open = degree("[[ 1abc == $A ]]");
  CHECK(open.scenario.parallel.tp == 2);
  CHECK(notes(open) == std::vector{not_evaluated("line 4 sets")});
  for (const char* holds : {"[[ 1abc == 1* ]]", "[[ 1abc != 2* ]]", "[[ ! 1abc = ?bc ]]"}) {
    INFO(holds);
    CHECK(degree(holds).scenario.parallel.tp == 2);
    CHECK(notes(degree(holds)).empty());
  }
  CHECK(degree("[[ 1abc == 2* ]]").scenario.parallel.tp == 1);
  for (const char* left : {"[ 1abc = 2* ]", "[[ 1abc == \"2\"* ]]", "[[ 1abc == [2]* ]]"})
    CHECK(notes(degree(left)) == std::vector{not_evaluated("line 4 sets")});
  CHECK(degree("true", "$((2 + 0))").scenario.parallel.tp == 2);
  CHECK(refusal("megatron", kArray + "torchrun pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size $((010))\n",
                "run.sh", {.model = "gpt2-small", .topology = "dgx-h100", .gpus = 8, .overrides = {}})
            .find("$((010))") != std::string::npos);
}

TEST_CASE("scripts: programs that are not Megatron-LM are refused, with what to give instead", "[io][launch][error]") {
  const auto refused = [](const std::string& text) { return refusal("megatron", text, "run.sh", job("qwen3-8b", 8)); };
  const std::string swift =
      "run.sh:2: starts ms-swift, whose defaults are not Megatron-LM's: give its settings as arguments of Megatron-LM, "
      "with --bf16, --use-distributed-optimizer and --recompute-granularity selective, unless it has others";
  for (const char* command : {"sft", "pt", "rlhf"})
    CHECK(refused("set -e\nNPROC_PER_NODE=8 megatron " + std::string(command) +
                  " --load a --tensor_model_parallel_size 4 --micro_batch_size 1\n") == swift);
  for (const char* program : {"-m swift.cli._megatron.sft", "swift/cli/_megatron/pt.py"})
    CHECK(refused("set -e\ntorchrun " + std::string(program) + " --load a --micro_batch_size 1\n") == swift);
  CHECK(refused("torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file a.toml --training.seq_len 8192\n") ==
        "run.sh:1: starts torchtitan: import the job's TOML, or the JSON that it saves (torchtitan)");
  CHECK(refused("python scripts/performance/run_script.py --model_name llama3 --num_gpus 64\n") ==
        "run.sh:1: starts a recipe of Megatron-Bridge: import the run_config.yaml that it saves (megatron-bridge)");
  CHECK(refused("torchrun run_clm.py --per_device_train_batch_size 4 --bf16\n")
            .starts_with("run.sh:1: starts Hugging Face's Trainer: import the file of accelerate launch (accelerate)"));
  CHECK(refused("A=\"--bf16\"\naccelerate launch --config_file f.yaml --num_processes 64 train.py $A\n") ==
        "run.sh:2: starts a program with Accelerate: import the file of --config_file (accelerate), and give the rest "
        "with --set");
  // Beside a command that trains with Megatron-LM's arguments they are other programs of the script.
  CHECK(script(kArray + kRun + "torchrun evaluate.py --per_device_train_batch_size 4\n")
            .scenario.training.global_batch_size == 32);
}

TEST_CASE("scripts: a length of training that is not known is left open", "[io][launch]") {
  for (const char* length : {"--train-iters $STEPS", "--train-samples ${SAMPLES}"}) {
    const ImportedRun run = script(kArray + "torchrun pretrain_gpt.py ${ARGS[@]} " + length + "\n");
    CHECK(run.scenario.training.train_tokens == 0);
    CHECK(assumes(run, "not known, so the length of training is left open"));
  }
}
