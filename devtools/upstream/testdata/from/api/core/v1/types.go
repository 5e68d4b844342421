package v1

// +genclient
// +genclient:nonNamespaced

// Thing is a kind of the fixture.
type Thing struct {
	TypeMeta `json:",inline"`

	// Kept keeps everything.
	// +optional
	Kept   string `json:"kept,omitempty" protobuf:"bytes,1,opt,name=kept"`
	Before string `json:"before,omitempty" protobuf:"bytes,2,opt,name=before"`
	Count  int32  `json:"count" protobuf:"varint,3,opt,name=count"`
	Gone   bool   `json:"gone" protobuf:"varint,4,opt,name=gone"`
	// +k8s:optional
	Tagged []string `json:"tagged" protobuf:"bytes,6,rep,name=tagged"`
}

// Old is removed.
type Old struct {
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
}
