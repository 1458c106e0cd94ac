// Says how a NetworkAttachmentDefinition is read by multus, libcni and whereabouts, whose own code it calls.
//
// Each line of the input is a question, each line of the output the answer to it. The only files that it looks at
// are those that a configuration names: it is to run in an empty folder.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/containernetworking/cni/libcni"
	cnitypes "github.com/containernetworking/cni/pkg/types"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/allocate"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/config"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/iphelpers"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
)

// What whereabouts finds on a node: where the API server is, and nothing about ranges.
const flatFile = `{"kubernetes": {"kubeconfig": "kubeconfig"}}`

// A range with more bits of its own is not counted.
const countable = 8

type question struct {
	// A definition.
	Name   string  `json:"name"`
	Config *string `json:"config"`
	// A reservation.
	Address string `json:"address"`
	Network string `json:"network"`
}

type answer struct {
	Error    string    `json:"error,omitempty"`
	Sections []section `json:"sections"`
	// Of a reservation.
	Name string `json:"name,omitempty"`
}

type section struct {
	// Why whereabouts refuses it.
	Error string `json:"error,omitempty"`
	// It is of another IPAM, or of none.
	Other     bool    `json:"other"`
	Network   string  `json:"network"`
	Reserves  bool    `json:"reserves"`
	Slices    string  `json:"slices"`
	SlicePool string  `json:"slice_pool"`
	Ranges    []entry `json:"ranges"`
}

type entry struct {
	Range string `json:"range"`
	Pool  string `json:"pool"`
	// The first and the last address that it gives out, exclude left aside; none of a range that is too small.
	First string `json:"first"`
	Last  string `json:"last"`
	// How many it gives out; -1 where nobody counted.
	Count int `json:"count"`
}

func main() {
	if err := os.WriteFile("flat.conf", []byte(flatFile), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	logging.SetLogStderr(false)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		said, err := json.Marshal(reply(asked))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		out.Write(append(said, '\n'))
	}
}

func reply(asked question) (said answer) {
	// An ADD that panics gives nobody an address.
	defer func() {
		if cause := recover(); cause != nil {
			said = answer{Error: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	if asked.Config == nil {
		return answer{Name: kubernetes.NormalizeIP(net.ParseIP(asked.Address), asked.Network)}
	}
	plugins, err := handed(*asked.Config, asked.Name)
	if err != nil {
		return answer{Error: err.Error()}
	}
	for _, plugin := range plugins {
		said.Sections = append(said.Sections, read(plugin))
	}
	return said
}

// handed is what each plugin gets on its standard input: multus in pkg/types/conf.go, libcni in libcni/api.go.
func handed(text, name string) ([][]byte, error) {
	whole, err := nadutils.GetCNIConfigFromSpec(text, name)
	if err != nil {
		return nil, err
	}
	var conf cnitypes.NetConf
	if err := json.Unmarshal(whole, &conf); err != nil {
		return nil, err
	}
	list := &libcni.NetworkConfigList{}
	if conf.Type == "" {
		var plugins cnitypes.NetConfList
		if err := json.Unmarshal(whole, &plugins); err != nil {
			return nil, err
		}
		if plugins.Plugins == nil || plugins.Plugins[0].Type == "" {
			return nil, errors.New("a delegate without type or plugins")
		}
		if list, err = libcni.NetworkConfFromBytes(whole); err != nil {
			return nil, err
		}
	} else {
		one, err := libcni.NetworkPluginConfFromBytes(whole)
		if err != nil {
			return nil, err
		}
		list.Name, list.CNIVersion = one.Network.Name, one.Network.CNIVersion
		list.Plugins = []*libcni.PluginConfig{one}
	}
	var all [][]byte
	for _, plugin := range list.Plugins {
		its, err := libcni.InjectConf(plugin, map[string]interface{}{
			"name":       list.Name,
			"cniVersion": list.CNIVersion,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, its.Bytes)
	}
	if len(all) == 0 {
		return nil, errors.New("a list of no plugins")
	}
	return all, nil
}

func read(plugin []byte) section {
	// The plugin calls the IPAM that it reads, which may give its keys other types.
	var caller cnitypes.NetConf
	if err := json.Unmarshal(plugin, &caller); err == nil && caller.IPAM.Type != "whereabouts" {
		return section{Other: true}
	}
	ipam, _, err := config.LoadIPAMConfig(plugin, "", "flat.conf")
	var other *config.InvalidPluginError
	var none *config.MissingIPAMConfigError
	if errors.As(err, &other) || errors.As(err, &none) {
		return section{Other: true}
	}
	if err != nil {
		return section{Error: err.Error()}
	}
	said := section{Network: ipam.NetworkName, Reserves: ipam.OverlappingRanges}
	if ipam.NodeSliceSize != "" {
		said.Slices = ipam.NetworkName
		if said.Slices == kubernetes.UnnamedNetwork {
			said.Slices = ipam.Name
		}
		said.SlicePool = kubernetes.IPPoolName(kubernetes.PoolIdentifier{
			IpRange: "10.0.3.0/24", NodeName: "node-1", NetworkName: ipam.NetworkName,
		})
	}
	for _, its := range ipam.IPRanges {
		said.Ranges = append(said.Ranges, readRange(its, ipam.NetworkName))
	}
	return said
}

func readRange(its types.RangeConfiguration, network string) entry {
	said := entry{Range: its.Range, Count: -1}
	said.Pool = kubernetes.IPPoolName(kubernetes.PoolIdentifier{IpRange: its.Range, NetworkName: network})
	_, ipnet, err := net.ParseCIDR(its.Range)
	if err != nil {
		said.Range = "whereabouts cannot read it again: " + its.Range
		return said
	}
	first, last, err := iphelpers.GetIPRange(*ipnet, its.RangeStart, its.RangeEnd)
	if err != nil {
		return said
	}
	said.First, said.Last = first.String(), last.String()
	ones, bits := ipnet.Mask.Size()
	if bits-ones <= countable {
		said.Count = count(*ipnet, first, last, its.OmitRanges)
	}
	return said
}

// count goes on from each address that is given out.
func count(ipnet net.IPNet, first, last net.IP, exclude []string) int {
	for given := 0; ; given++ {
		ip, _, err := allocate.IterateForAssignment(ipnet, first, last, nil, exclude, "", "", "")
		if err != nil {
			return given
		}
		if iphelpers.CompareIPs(ip, last) >= 0 {
			return given + 1
		}
		first = iphelpers.IncIP(ip)
	}
}
