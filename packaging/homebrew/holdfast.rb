class Holdfast < Formula
  desc "Kubernetes-compatible API server in one binary"
  homepage "https://github.com/holdfast-project/holdfast"
  version "@version@"
  license "Apache-2.0"

  # begin darwin
  on_macos do
    # begin darwin-arm64
    on_arm do
      url "@url darwin-arm64@"
      sha256 "@sha256 darwin-arm64@"
    end
    # begin darwin-amd64
    on_intel do
      url "@url darwin-amd64@"
      sha256 "@sha256 darwin-amd64@"
    end
    # begin darwin
  end
  # begin linux
  on_linux do
    # begin linux-arm64
    on_arm do
      url "@url linux-arm64@"
      sha256 "@sha256 linux-arm64@"
    end
    # begin linux-amd64
    on_intel do
      url "@url linux-amd64@"
      sha256 "@sha256 linux-amd64@"
    end
    # begin linux
  end
  # end

  def install
    bin.install "holdfast"
    bin.install_symlink "holdfast" => "kubectl-holdfast"
    bash_completion.install "completions/holdfast"
    zsh_completion.install "completions/_holdfast"
    fish_completion.install "completions/holdfast.fish"
    man1.install Dir["man/*.1"]
  end

  service do
    run [opt_bin/"holdfast", "--data-dir=#{var}/holdfast"]
    keep_alive true
    log_path var/"log/holdfast.log"
    error_log_path var/"log/holdfast.log"
  end

  test do
    assert_match "holdfast #{version}", shell_output("#{bin}/holdfast version")
    system bin/"holdfast", "run", "--", "sh", "-c", "test -s \"$KUBECONFIG\""
  end
end
