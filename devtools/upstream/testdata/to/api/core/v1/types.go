package v1

// +genclient
// +genclient:nonNamespaced
// +k8s:supportsSubresource="/status"

// Thing is a kind of the fixture.
type Thing struct {
	TypeMeta `json:",inline"`

	// Kept keeps everything.
	// +optional
	Kept  string `json:"kept,omitempty" protobuf:"bytes,1,opt,name=kept"`
	After string `json:"after,omitempty" protobuf:"bytes,2,opt,name=after"`
	Count *int64 `json:"count" protobuf:"varint,3,opt,name=count"`
	// +featureGate=Added
	// +k8s:optional
	// +k8s:maximum=10
	New *int32 `json:"new,omitempty" protobuf:"varint,5,opt,name=new"`
	// +k8s:optional
	// +k8s:maxItems=8
	// +listType=map
	Tagged []string `json:"tagged" protobuf:"bytes,6,rep,name=tagged" patchStrategy:"merge"`
}

// New is added.
type New struct {
	First  string `json:"first" protobuf:"bytes,1,opt,name=first"`
	Second string `json:"second" protobuf:"bytes,2,opt,name=second"`
}
