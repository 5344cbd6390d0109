// Command controlplane is a Kubernetes control plane for tests in one binary: the real etcd,
// kube-apiserver, kube-scheduler and kubectl, and two extenders that serve as yardsticks.
//
// One binary instead of four because the programs share most of their code: it links once, and
// one file is enough to cache.
package main

import (
	"fmt"
	"io"
	"os"
	_ "time/tzdata" // the apiserver validates time zones, and small images have no database of them

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // the released binaries accept --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* metrics, as the released binaries have
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info, as the released binaries have
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"kube-sched-ext/controlplane/yardstick"
)

type program struct {
	name, about string
	run         func() int
}

// A function and not a variable: only the program that was asked for may be constructed.
func programs() []program {
	return []program{
		{"etcd", "the key-value store of the apiserver", runEtcd},
		{"kube-apiserver", "the Kubernetes API", func() int { return cli.Run(apiserver.NewAPIServerCommand()) }},
		{"kube-scheduler", "the scheduler that calls the extenders", func() int { return cli.Run(scheduler.NewSchedulerCommand()) }},
		{"kubectl", "the command line client", runKubectl},
		{"null-extender", "yardstick: accepts every node, the usual way in Go", func() int { return yardstick.RunNull(os.Args, os.Stdout, os.Stderr) }},
		{"floor-extender", "yardstick: accepts every node without decoding JSON", func() int { return yardstick.RunFloor(os.Args, os.Stdout, os.Stderr) }},
	}
}

func main() {
	if len(os.Args) < 2 {
		usage(os.Stderr)
		os.Exit(2)
	}
	name := os.Args[1]
	switch name {
	case "-h", "--help", "help":
		usage(os.Stdout)
		return
	}
	for _, p := range programs() {
		if p.name == name {
			// The programs read os.Args themselves (cobra, kubectl's search for plugins), so each
			// must find there what it would if it were a binary of its own.
			os.Args = os.Args[1:]
			os.Exit(p.run())
		}
	}
	fmt.Fprintf(os.Stderr, "controlplane: unknown program %q\n\n", name)
	usage(os.Stderr)
	os.Exit(2)
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: controlplane PROGRAM [ARGUMENT...]\n\nPrograms (each has --help):\n")
	for _, p := range programs() {
		fmt.Fprintf(w, "  %-15s %s\n", p.name, p.about)
	}
}

func runEtcd() int {
	etcdmain.Main(os.Args) // exits by itself on errors
	return 0
}

func runKubectl() int {
	// kubectl logs while it builds its commands, before cobra has parsed --v. An unparsable
	// level is left for cobra to report.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints as kubectl users know it, and exits
	}
	return 0
}
