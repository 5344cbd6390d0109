package yardstick

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const aboutFloor = `An extender that accepts every node and scores each 5 without decoding JSON: it finds
the names in the bytes of the request and sends them back. No extender on net/http
can answer for less. Names mode only (nodeCacheCapable: true). Verbs are served at
any path ending in /filter, /prioritize or /preemption.`

// RunFloor is the program floor-extender; args[0] is its name.
func RunFloor(args []string, stdout, stderr io.Writer) int {
	return run(args, aboutFloor, floorVerbs, stdout, stderr)
}

var floorVerbs = verbs{
	"filter":     floorFilter,
	"prioritize": floorPrioritize,
	"preemption": floorPreemption,
}

var errEscape = errors.New("a backslash in NodeNames: the floor extender knows no escapes, and node names need none")

// floorFilter replies with a piece of the request: from the key to the end of the array, with
// the bytes around it turned into braces. Only NodeNames is needed, the scheduler takes what
// is absent for empty.
//
// The first closing bracket ends the array: a node name is a DNS subdomain and has none.
func floorFilter(x *exchange) ([]byte, error) {
	body := x.body.Bytes()
	key, value, err := findKey(body, `"NodeNames"`, '[')
	if err != nil {
		return nil, err
	}
	length := bytes.IndexByte(body[value:], ']') + 1
	if length == 0 || value+length == len(body) {
		return nil, errors.New("the request ends within NodeNames")
	}
	end := value + length
	if bytes.IndexByte(body[value:end], '\\') >= 0 {
		return nil, errEscape
	}
	body[key-1], body[end] = '{', '}'
	return body[key-1 : end+1], nil
}

func floorPrioritize(x *exchange) ([]byte, error) {
	reply, err := appendScores(x.scratch[:0], x.body.Bytes())
	if err == nil {
		x.scratch = reply // keeps what the reply has grown to
	}
	return reply, err
}

// appendScores walks over the names from quote to quote and copies what is between them.
func appendScores(reply, body []byte) ([]byte, error) {
	_, value, err := findKey(body, `"NodeNames"`, '[')
	if err != nil {
		return nil, err
	}
	tail := `","Score":` + strconv.Itoa(score) + `}`
	reply = append(reply, '[')
	at := skipSpace(body, value+1)
	for first := true; ; first = false {
		switch {
		case at == len(body):
			return nil, errors.New("the request ends within NodeNames")
		case body[at] == ']' && first:
			return append(reply, ']'), nil
		case body[at] != '"':
			return nil, fmt.Errorf("%q in NodeNames where a name should start", body[at])
		}
		length := bytes.IndexByte(body[at+1:], '"')
		if length < 0 {
			return nil, errors.New("the request ends within a name")
		}
		name := body[at+1 : at+1+length]
		if bytes.IndexByte(name, '\\') >= 0 {
			return nil, errEscape
		}
		if !first {
			reply = append(reply, ',')
		}
		reply = append(reply, `{"Host":"`...)
		reply = append(reply, name...)
		reply = append(reply, tail...)

		at = skipSpace(body, at+1+length+1)
		switch {
		case at == len(body):
			return nil, errors.New("the request ends within NodeNames")
		case body[at] == ']':
			return append(reply, ']'), nil
		case body[at] != ',':
			return nil, fmt.Errorf("%q in NodeNames between two names", body[at])
		}
		at = skipSpace(body, at+1)
	}
}

// floorPreemption replies with the request from the key of the meta victims on. That they come
// last is upstream's order; were anything behind them, the scheduler would skip it as an
// unknown key.
func floorPreemption(x *exchange) ([]byte, error) {
	body := x.body.Bytes()
	key, _, err := findKey(body, `"NodeNameToMetaVictims"`, '{')
	if err != nil {
		return nil, err
	}
	body[key-1] = '{'
	return body[key-1:], nil
}

// findKey returns where a quoted key starts, and the bracket that opens its value.
//
// It takes the body to be valid JSON and does not look at depth: it finds the first such key
// of any object. That is enough, because
//
//   - the top-level keys have Go's spelling, and no field of a Pod is spelled like them;
//   - a Pod's free maps (labels, annotations, nodeSelector ...) can have such a key, but their
//     values are strings, never an array or an object;
//   - within a string the quotes are escaped, so the byte before the key would be a backslash
//     and not, as here, a brace, a comma or white space behind one.
//
// Keys of another case, which Go would accept too, are not found: kube-scheduler since 1.17
// doesn't send them. Nor are null values: they stand for the other mode.
func findKey(body []byte, quoted string, opens byte) (key, value int, err error) {
	for from := 0; ; {
		offset := bytes.Index(body[from:], []byte(quoted))
		if offset < 0 {
			return 0, 0, fmt.Errorf("no %s followed by %q in the request: the floor extender speaks names mode only (nodeCacheCapable: true)", quoted, opens)
		}
		key = from + offset
		from = key + len(quoted)
		if !startsMember(body, key) {
			continue
		}
		colon := skipSpace(body, from)
		if colon == len(body) || body[colon] != ':' {
			continue
		}
		value = skipSpace(body, colon+1)
		if value < len(body) && body[value] == opens {
			return key, value, nil
		}
	}
}

// startsMember tells whether the quote at key can open the key of an object.
func startsMember(body []byte, key int) bool {
	for i := key - 1; i >= 0; i-- {
		switch body[i] {
		case ' ', '\t', '\n', '\r':
		case '{', ',':
			return true
		default:
			return false
		}
	}
	return false
}

func skipSpace(body []byte, at int) int {
	for at < len(body) && (body[at] == ' ' || body[at] == '\t' || body[at] == '\n' || body[at] == '\r') {
		at++
	}
	return at
}
