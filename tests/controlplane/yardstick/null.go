package yardstick

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	extender "k8s.io/kube-scheduler/extender/v1"
)

const aboutNull = `An extender that accepts every node and scores each 5, written the usual way in Go:
upstream types, encoding/json, net/http. Names mode and whole-node mode. Verbs are
served at any path ending in /filter, /prioritize or /preemption.`

// RunNull is the program null-extender; args[0] is its name.
func RunNull(args []string, stdout, stderr io.Writer) int {
	return run(args, aboutNull, nullVerbs, stdout, stderr)
}

var nullVerbs = verbs{
	"filter":     decoded(nullFilter),
	"prioritize": decoded(nullPrioritize),
	"preemption": decoded(nullPreemption),
}

// decoded puts encoding/json around a verb on upstream types. It leaves the scratch memory
// alone: that json.Marshal allocates is part of what this yardstick measures.
func decoded[Args, Result any](decide func(*Args) (Result, error)) verb {
	return func(x *exchange) ([]byte, error) {
		var args Args
		if err := json.Unmarshal(x.body.Bytes(), &args); err != nil {
			return nil, fmt.Errorf("decoding the request: %w", err)
		}
		result, err := decide(&args)
		if err != nil {
			return nil, err
		}
		return json.Marshal(result)
	}
}

var errNoNodes = errors.New("neither NodeNames nor Nodes in the request")

func nullFilter(args *extender.ExtenderArgs) (*extender.ExtenderFilterResult, error) {
	if args.NodeNames == nil && args.Nodes == nil {
		return nil, errNoNodes
	}
	return &extender.ExtenderFilterResult{NodeNames: args.NodeNames, Nodes: args.Nodes}, nil
}

func nullPrioritize(args *extender.ExtenderArgs) (extender.HostPriorityList, error) {
	switch {
	case args.NodeNames != nil:
		scores := make(extender.HostPriorityList, len(*args.NodeNames))
		for i, name := range *args.NodeNames {
			scores[i] = extender.HostPriority{Host: name, Score: score}
		}
		return scores, nil
	case args.Nodes != nil:
		scores := make(extender.HostPriorityList, len(args.Nodes.Items))
		for i := range args.Nodes.Items {
			scores[i] = extender.HostPriority{Host: args.Nodes.Items[i].Name, Score: score}
		}
		return scores, nil
	default:
		return nil, errNoNodes
	}
}

// nullPreemption sends the victims back, in the meta form whatever form they came in: that is
// the only one the scheduler reads.
func nullPreemption(args *extender.ExtenderPreemptionArgs) (*extender.ExtenderPreemptionResult, error) {
	if args.NodeNameToMetaVictims != nil {
		return &extender.ExtenderPreemptionResult{NodeNameToMetaVictims: args.NodeNameToMetaVictims}, nil
	}
	if args.NodeNameToVictims == nil {
		return nil, errors.New("neither NodeNameToMetaVictims nor NodeNameToVictims in the request")
	}
	meta := make(map[string]*extender.MetaVictims, len(args.NodeNameToVictims))
	for node, victims := range args.NodeNameToVictims {
		if victims == nil {
			return nil, fmt.Errorf("node %q has null for victims", node)
		}
		pods := make([]*extender.MetaPod, len(victims.Pods))
		for i, pod := range victims.Pods {
			if pod == nil {
				return nil, fmt.Errorf("node %q has null for a victim", node)
			}
			pods[i] = &extender.MetaPod{UID: string(pod.UID)}
		}
		meta[node] = &extender.MetaVictims{Pods: pods, NumPDBViolations: victims.NumPDBViolations}
	}
	return &extender.ExtenderPreemptionResult{NodeNameToMetaVictims: meta}, nil
}
